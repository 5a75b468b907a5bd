-- now, id, token, error class, reason, the end of its history entry. 1, or 0 when the lease is gone.
local now, id, token, class, reason, trial = unpack(ARGV)
local priority, body, deliveries, sent, worker = end_lease(id, token)
if not priority then
  return 0
end
record(id, deliveries, worker, trial)
call('ZREM', SENT, id)
call('ZADD', DEAD_ORDER, call('INCR', NUMBERS), id)
call('HSET', DEAD, id, pack(priority, deliveries, sent, now, class, reason, body))
call('HINCRBY', CLASSES, class, 1)
count('buried', 1, now)
return 1
