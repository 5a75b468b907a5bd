-- now, due, token, '1' when the delivery counts, the end of its history entry. 1, or 0 when the lease is gone.
local now, due, token, counted, trial = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local entry, id, worker, deliveries = end_lease(token)
bring_due(now)
if not entry then
  return 0
end
if counted == '1' then
  record(id, deliveries, worker, trial)
  count('released', 1, now)
else
  local _, history = deliveries_of(id)
  call('HSET', TRIES, id, pack(deliveries - 1, history))
end
if tonumber(due) > tonumber(now) then
  delay(entry, due)
elseif counted == '1' then
  append(entry)
else
  prepend(entry)
end
return 1
