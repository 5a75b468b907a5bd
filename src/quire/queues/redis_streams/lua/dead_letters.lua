-- after, how many to look at, '1' for one error class only, the class, '1' for payload and history too, then
-- ids when only these are selected. The number looked at last (-1: no more), then for each that fits: id, number,
-- priority, deliveries, sent, buried, class, reason, body, trials.
local after, most, only, class, whole = ARGV[1], tonumber(ARGV[2]), ARGV[3] == '1', ARGV[4], ARGV[5] == '1'
local found, last = {}, -1
if #ARGV > 5 then
  local ids = {}
  for place = 6, #ARGV do
    ids[#ids + 1] = ARGV[place]
  end
  for place, number in ipairs(ask_each(ids, 'ZMSCORE', DEAD_ORDER)) do
    if number and tonumber(number) > tonumber(after) then
      found[#found + 1] = {ids[place], tonumber(number)}
    end
  end
  table.sort(found, function(one, other) return one[2] < other[2] end)
  if #found > most then
    last = found[most][2]
  end
else
  local numbered = call('ZRANGEBYSCORE', DEAD_ORDER, '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, most)
  for place = 1, #numbered, 2 do
    found[#found + 1] = {numbered[place], tonumber(numbered[place + 1])}
  end
  if #found == most then
    last = found[most][2]
  end
end
local answer = {last}
for place = 1, math.min(most, #found) do
  local id, number = found[place][1], found[place][2]
  local priority, deliveries, sent, buried, of, reason, body = unpack_values(call('HGET', DEAD, id))
  if not only or of == class then
    local trials = whole and call('HGET', TRIALS, id) or ''
    for _, value in ipairs({id, number, priority, deliveries, sent, buried, of, reason, whole and body or '', trials}) do
      answer[#answer + 1] = value
    end
  end
end
return answer
