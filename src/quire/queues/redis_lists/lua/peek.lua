-- now, how many. Flat: id, message or data of the job, deliveries, when it is due and who has it (empty: nobody), in
-- the order of delivery, then what is leased. Changes nothing.
local now, left = ARGV[3], tonumber(ARGV[4])
local answer = {}
local function show(entry, due, worker)
  if left > 0 then
    left = left - 1
    local id = id_of(entry)
    local place = #answer
    answer[place + 1] = id
    answer[place + 2] = IS_RQ and (call('HGET', job(entry), 'data') or '') or entry
    answer[place + 3] = (deliveries_of(id))
    answer[place + 4] = due
    answer[place + 5] = worker
  end
end
local leases = call('ZRANGE', LEASES, 0, MOST - 1, 'WITHSCORES')
local held = {}
for place = 1, #leases, 2 do
  local lease = call('HGET', LEASED, leases[place])
  if lease then
    local entry, _, worker = unpack_values(lease)
    if tonumber(leases[place + 1]) <= tonumber(now) then
      show(entry, leases[place + 1], '')
    else
      held[#held + 1] = {entry, leases[place + 1], worker}
    end
  end
end
if IS_RQ then
  for _, entry in ipairs(left > 0 and call('LRANGE', LIST, 0, left - 1) or {}) do
    show(entry, now, '')
  end
else
  local entries = left > 0 and call('LRANGE', LIST, -left, -1) or {}
  for place = #entries, 1, -1 do
    show(entries[place], now, '')
  end
end
local delayed = left > 0 and call('ZRANGE', DELAYED, 0, left - 1, 'WITHSCORES') or {}
for place = 1, #delayed, 2 do
  show(string.sub(delayed[place], 18), delayed[place + 1], '')
end
for _, one in ipairs(held) do
  show(one[1], one[2], one[3])
end
return answer
