-- In front of every script. Keys are the same for all of them, in this order; they have no hash tag, because
-- published programs know the first one by its name: a cluster cannot have such a queue.
--   1   list    what waits. Plain form: the messages as they were sent, next one on the right. RQ: job ids, next
--               one on the left
--   2   zset    delayed: "number message" or "number job", scored by when it becomes due
--   3   zset    leases: token, scored by the end of the lease
--   4   hash    leased: token -> message or job, id, worker, deliveries, number; outlives a lease that ran out
--               until somebody else takes the message, so that late work still counts
--   5   hash    returned: id -> token of a lease that ran out, while its message waits again
--   6   hash    tries: id -> deliveries and history, one JSON object a line
--   7   list    dead: messages or jobs as they were, newest on the left
--   8   hash    reasons: id -> a JSON object with error class, reason and number of what is dead, then its history,
--               one JSON object a line
--   9   zset    sent: ids by which senders know messages, scored by when they were sent
--   10  string  the last number given
--   11  hash    counts: "sent" or "minute sent" -> number, likewise for all that is counted
-- Keys that are made here: QUEUE:processing:WORKER, a list of what a worker has, QUEUE:worker:WORKER, its sign of
-- life, and in the RQ form rq:job:ID, rq:queues, rq:failed:QUEUE.
-- An id is the SHA-1 of a message, or in the RQ form the job's id: a plain list has no other.
-- Times stay the text they came as.
local LIST, DELAYED, LEASES, LEASED, RETURNED = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local TRIES, DEAD, REASONS, SENT, NUMBERS, COUNTS = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11]
-- The first two arguments of every script: the form ('list' or 'rq') and the name of the queue.
local IS_RQ, QUEUE = ARGV[1] == 'rq', ARGV[2]
-- As much as one call brings back by the way, so that none holds up the server for long.
local MOST = 1000
local call, pack, unpack_values = redis.call, cmsgpack.pack, cmsgpack.unpack

local function count(what, number, now)
  if number > 0 then
    call('HINCRBY', COUNTS, what, number)
    call('HINCRBY', COUNTS, string.format('%d %s', math.floor(tonumber(now) / 60), what), number)
  end
end

local function id_of(entry)
  return IS_RQ and entry or redis.sha1hex(entry)
end

local function job(entry)
  return 'rq:job:' .. entry
end

local function processing(worker)
  return QUEUE .. ':processing:' .. worker
end

local function show_alive(worker, seconds)
  call('SET', QUEUE .. ':worker:' .. worker, '1', 'EX', seconds)
end

-- Only of a job that is still there: a hash with nothing but a status would be none.
local function mark(entry, status)
  if IS_RQ and call('EXISTS', job(entry)) == 1 then
    call('HSET', job(entry), 'status', status)
    call('PERSIST', job(entry))
  end
end

local function mark_waiting(entry)
  mark(entry, 'queued')
  if IS_RQ then
    call('SADD', 'rq:queues', LIST)
  end
end

-- Behind everything that waits.
local function append(entry)
  mark_waiting(entry)
  call(IS_RQ and 'RPUSH' or 'LPUSH', LIST, entry)
end

-- Before everything that waits.
local function prepend(entry)
  mark_waiting(entry)
  call(IS_RQ and 'LPUSH' or 'RPUSH', LIST, entry)
end

local function delay(entry, due)
  mark(entry, 'scheduled')
  call('ZADD', DELAYED, due, string.format('%016d %s', call('INCR', NUMBERS), entry))
end

local function deliveries_of(id)
  local known = call('HGET', TRIES, id)
  if known then
    return unpack_values(known)
  end
  return 0, ''
end

-- `rest` is the end of a JSON object, `worker` a plain text.
local function record(id, delivery, worker, rest)
  local deliveries, history = deliveries_of(id)
  local line = string.format('{"delivery":%d,"worker":%s,%s', delivery, cjson.encode(worker), rest)
  call('HSET', TRIES, id, pack(deliveries, history == '' and line or history .. '\n' .. line))
end

-- A lease has run out: back to the front, unless somebody took the message out of the worker's list.
local function return_lease(token)
  local lease = call('HGET', LEASED, token)
  call('ZREM', LEASES, token)
  if not lease then
    return
  end
  local entry, id, worker = unpack_values(lease)
  if call('LREM', processing(worker), 1, entry) == 0 then
    call('HDEL', LEASED, token)
    return
  end
  prepend(entry)
  local other = call('HGET', RETURNED, id)
  if other then
    call('HDEL', LEASED, other)
  end
  call('HSET', RETURNED, id, token)
end

-- Whatever has become due by `now` waits again: leases that ran out before everything else, the first one sent
-- first, then what was delayed behind everything else.
local function bring_due(now)
  local ended = {}
  for _, token in ipairs(call('ZRANGEBYSCORE', LEASES, '-inf', now, 'LIMIT', 0, MOST)) do
    local lease = call('HGET', LEASED, token)
    ended[#ended + 1] = {lease and select(5, unpack_values(lease)) or 0, token}
  end
  table.sort(ended, function(one, other)
    return one[1] > other[1]
  end)
  for _, one in ipairs(ended) do
    return_lease(one[2])
  end
  for _, member in ipairs(call('ZRANGEBYSCORE', DELAYED, '-inf', now, 'LIMIT', 0, MOST)) do
    call('ZREM', DELAYED, member)
    append(string.sub(member, 18))
  end
end

-- What the holder of this token has: message or job, id, worker, deliveries; it is in no list then.
-- Nil when the lease is gone.
local function end_lease(token)
  local lease = call('HGET', LEASED, token)
  if not lease then
    return nil
  end
  local entry, id, worker, deliveries = unpack_values(lease)
  call('HDEL', LEASED, token)
  if call('ZREM', LEASES, token) == 1 then
    if call('LREM', processing(worker), 1, entry) == 0 then
      return nil
    end
  else
    if call('HGET', RETURNED, id) == token then
      call('HDEL', RETURNED, id)
    end
    -- It waits again; when it does not, somebody else has it.
    if call('LREM', LIST, IS_RQ and 1 or -1, entry) == 0 then
      return nil
    end
  end
  return entry, id, worker, deliveries
end

-- `class` and `reason` are JSON texts. The same message twice is one dead letter.
local function bury(entry, id, deliveries, now, class, reason)
  local _, history = deliveries_of(id)
  local told = string.format(
    '{"no":%d,"deliveries":%d,"buried_at":%s,"error_class":%s,"reason":%s}',
    call('INCR', NUMBERS), deliveries, now, class, reason)
  call('HSET', REASONS, id, history == '' and told or told .. '\n' .. history)
  call('HDEL', TRIES, id)
  call('LREM', DEAD, 0, entry)
  call('LPUSH', DEAD, entry)
  mark(entry, 'failed')
  if IS_RQ and call('EXISTS', job(entry)) == 1 then
    call('ZADD', 'rq:failed:' .. QUEUE, '+inf', entry)
  end
  count('buried', 1, now)
end
