-- now, due, forget, number of values of each, then the values: the sender's id, the message, and in the RQ form
-- the fields of the job's hash. How many were new.
local now, due, forget, width = ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
bring_due(now)
call('ZREMRANGEBYSCORE', SENT, '-inf', forget)
local new = 0
for place = 7, #ARGV, width do
  local id, entry = ARGV[place], ARGV[place + 1]
  local known = call('ZADD', SENT, 'NX', now, id) == 0
  if IS_RQ and not known then
    known = call('HGET', job(entry), 'status') == 'queued'
  end
  if not known then
    if IS_RQ then
      call('DEL', job(entry))
      call('HSET', job(entry), unpack(ARGV, place + 2, place + width - 1))
    end
    if tonumber(due) > tonumber(now) then
      delay(entry, due)
    else
      append(entry)
    end
    new = new + 1
  end
end
count('sent', new, now)
return new
