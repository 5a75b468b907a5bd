-- now, until, token, worker, limit, most bytes, seconds of the sign of life, class and reason (JSON) for what is
-- larger, moment as RQ writes it. Flat: id, message or data of the job, deliveries and token of each; the data
-- is empty when RQ has no such job any more.
local now, ends, base, worker, left = ARGV[3], ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])
local most, seconds, class, reason, moment = tonumber(ARGV[8]), ARGV[9], ARGV[10], ARGV[11], ARGV[12]
bring_due(now)
show_alive(worker, seconds)
local answer, leased, expired, most_buried = {}, 0, 0, MOST
while leased < left and most_buried > 0 do
  local entry = call('LMOVE', LIST, processing(worker), IS_RQ and 'LEFT' or 'RIGHT', 'LEFT')
  if not entry then
    break
  end
  local id = id_of(entry)
  local deliveries = deliveries_of(id) + 1
  local before = call('HGET', RETURNED, id)
  if before then
    local lease = call('HGET', LEASED, before)
    call('HDEL', RETURNED, id)
    call('HDEL', LEASED, before)
    if lease then
      local _, _, who, delivery = unpack_values(lease)
      record(id, delivery, who, '"at":' .. now .. ',"ending":"expired"}')
      expired = expired + 1
    end
  end
  local size = IS_RQ and call('HSTRLEN', job(entry), 'data') or #entry
  if size > most then
    call('LREM', processing(worker), 1, entry)
    bury(entry, id, deliveries, now, class, reason)
    most_buried = most_buried - 1
  else
    local _, history = deliveries_of(id)
    call('HSET', TRIES, id, pack(deliveries, history))
    leased = leased + 1
    local token = base .. '.' .. leased
    call('HSET', LEASED, token, pack(entry, id, worker, deliveries, call('INCR', NUMBERS)))
    call('ZADD', LEASES, ends, token)
    local body = entry
    if IS_RQ then
      body = call('HGET', job(entry), 'data') or ''
      if body ~= '' then
        call('HSET', job(entry), 'status', 'started', 'started_at', moment, 'worker_name', worker)
      end
    end
    local place = #answer
    answer[place + 1] = id
    answer[place + 2] = body
    answer[place + 3] = deliveries
    answer[place + 4] = token
  end
end
count('delivered', leased, now)
count('expired', expired, now)
-- Published programs took the rest: what is known of it is of no use any more.
if leased == 0 and call('EXISTS', LIST, DELAYED, LEASES) == 0 then
  call('DEL', LEASED, RETURNED, TRIES)
end
return answer
