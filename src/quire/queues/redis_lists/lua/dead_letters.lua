-- first, how many: counted from the oldest. Flat: id, message or data of the job, what is told of it. One that was
-- put there by hand has no reason, and gets a number now.
local first, number = tonumber(ARGV[3]), tonumber(ARGV[4])
local entries = call('LRANGE', DEAD, -first - number, -first - 1)
local answer = {}
for place = #entries, 1, -1 do
  local entry = entries[place]
  local id = id_of(entry)
  local told = call('HGET', REASONS, id)
  if not told then
    told = string.format('{"no":%d}', call('INCR', NUMBERS))
    call('HSET', REASONS, id, told)
  end
  answer[#answer + 1] = id
  answer[#answer + 1] = IS_RQ and (call('HGET', job(entry), 'data') or '') or entry
  answer[#answer + 1] = told
end
return answer
