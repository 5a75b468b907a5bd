-- now, token, error class and reason as JSON, the end of the history entry. 1, or 0 when the lease is gone.
local now, token, class, reason, trial = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local entry, id, worker, deliveries = end_lease(token)
if not entry then
  return 0
end
record(id, deliveries, worker, trial)
bury(entry, id, deliveries, now, class, reason)
return 1
