-- now, due, id, token, '1' when the delivery counts, the end of its history entry. 1, or 0 when the lease is gone.
local now, due, id, token, counted, trial = unpack(ARGV)
local crowded = bring_due(now, MOST)
local priority, body, deliveries, sent, worker, no = end_lease(id, token)
if not priority then
  return 0
end
if counted == '1' then
  record(id, deliveries, worker, trial)
  count('released', 1, now)
else
  deliveries = deliveries - 1
end
put(priority, id, body, sent, due, deliveries, no, now, crowded)
wake()
return 1
