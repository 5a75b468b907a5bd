-- In front of every script. Keys are the same for all of them, in this order, all in one slot by the queue's tag:
--   1-5  stream  what may be delivered, by priority; an entry has id, body, sent, due, tries, no, sometimes expired
--   6    zset    delayed: "no priority sent id", scored by when it becomes due
--   7    hash    held: id -> tries and body of what is delayed
--   8    zset    leases: id, scored by the end of its lease
--   9    hash    loans: id -> token, entry, priority, deliveries, sent, worker, no; outlives a lease that ran
--                out until another consumer leases the message, so that late work still counts
--   10   zset    ids: every known id, scored by when it is forgotten; infinite while its message is there
--   11   zset    sent: id of what is waiting or leased, scored by when it was sent
--   12   hash    trials: id -> history, one JSON object a line
--   13   zset    graves: id of the dead, scored by number
--   14   hash    dead: id -> priority, deliveries, sent, buried, class, reason, body
--   15   hash    classes: error class -> how many dead
--   16   hash    counts: "sent" or "minute sent" -> number, likewise for all that is counted
--   17   string  the last number given: `no` is the order of sending, or of replaying
--   18   stream  wake: its only entry is newer than anything that came in
-- Times stay the text they came as: Lua writes numbers with 14 digits, which is a tenth of a millisecond today.
local DELAYED, HELD, LEASES, LEASE_DATA, IDS, SENT = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11]
local TRIALS, DEAD_ORDER, DEAD, CLASSES, COUNTS = KEYS[12], KEYS[13], KEYS[14], KEYS[15], KEYS[16]
local NUMBERS, WAKE = KEYS[17], KEYS[18]
local GROUP, LEAST = 'quire', 5
-- As much as one call brings back by the way, so that none holds up the server for long.
local MOST, MOST_AHEAD = 1000, 100
local call, pack, unpack_values = redis.call, cmsgpack.pack, cmsgpack.unpack

-- Lua takes at most some 8000 values in a call.
local function in_parts(list, act)
  for first = 1, #list, 4000 do
    act(first, math.min(first + 3999, #list))
  end
end

-- All of `list` in one command after `...`, or a few when it is long.
local function with_all(list, command, key, group)
  in_parts(list, function(first, last)
    if group then
      call(command, key, group, unpack(list, first, last))
    else
      call(command, key, unpack(list, first, last))
    end
  end)
end

-- The answers to one question about each of `list`.
local function ask_each(list, command, key)
  local answers = {}
  in_parts(list, function(first, last)
    for place, answer in ipairs(call(command, key, unpack(list, first, last))) do
      answers[first + place - 1] = answer
    end
  end)
  return answers
end

local function every_second(first)
  local list = {}
  for place = first, #ARGV, 2 do
    list[#list + 1] = ARGV[place]
  end
  return list
end

local function count(what, number, now)
  if number > 0 then
    call('HINCRBY', COUNTS, what, number)
    call('HINCRBY', COUNTS, string.format('%d %s', math.floor(tonumber(now) / 60), what), number)
  end
end

local function wake()
  call('XADD', WAKE, 'MAXLEN', 1, '*', 'w', '')
end

-- `rest` is the end of a JSON object, `worker` a JSON string.
local function record(id, delivery, worker, rest)
  local line = string.format('{"delivery":%d,"worker":%s,%s', delivery, worker, rest)
  local before = call('HGET', TRIALS, id)
  call('HSET', TRIALS, id, before and (before .. '\n' .. line) or line)
end

-- Longer than 64 bytes: a hash of less and shorter values than 512 is a list, in which each one is searched for.
local function pack_lease(token, entry, priority, deliveries, sent, worker, no)
  return pack(token, entry, priority, deliveries, sent, worker, no, '                                ')
end

local ready = {}

-- To the end of its stream.
local function offer(priority, id, body, sent, due, tries, no, expired)
  local stream = KEYS[priority]
  if not ready[priority] then
    if call('EXISTS', stream) == 0 then
      call('XGROUP', 'CREATE', stream, GROUP, '0', 'MKSTREAM')
    end
    ready[priority] = true
  end
  if expired then
    return call(
      'XADD', stream, '*', 'id', id, 'body', body, 'sent', sent, 'due', due, 'tries', tries, 'no', no, 'expired', '1')
  end
  return call('XADD', stream, '*', 'id', id, 'body', body, 'sent', sent, 'due', due, 'tries', tries, 'no', no)
end

local function delay(priority, id, body, sent, due, tries, no)
  call('ZADD', DELAYED, due, string.format('%016d %d %s %s', no, priority, sent, id))
  call('HSET', HELD, id, pack(tonumber(tries), body))
end

local function delayed_parts(member)
  return string.match(member, '^(%d+) (%d) (%S+) (.*)$')
end

-- The id after which nothing of a stream has been delivered.
local function last_delivered(priority)
  for _, group in ipairs(call('XINFO', 'GROUPS', KEYS[priority])) do
    for place = 1, #group, 2 do
      if group[place] == 'last-delivered-id' then
        return group[place + 1]
      end
    end
  end
end

-- Something that has become due stands behind what became due before it, or at the same moment and was sent
-- before. Later ones are in the stream already only when their sender's clock was ahead of the caller's; then
-- these step back, a few of them at most.
local function offer_in_order(priority, id, body, sent, due, tries, no, expired)
  local function is_before(fields)
    local theirs, ours = tonumber(fields[8]), tonumber(due)
    return theirs < ours or theirs == ours and tonumber(fields[12]) < tonumber(no)
  end
  local ahead = {}
  local last = call('XREVRANGE', KEYS[priority], '+', '-', 'COUNT', 1)[1]
  if last and not is_before(last[2]) then
    local from = '(' .. last_delivered(priority)
    for _, entry in ipairs(call('XREVRANGE', KEYS[priority], '+', from, 'COUNT', MOST_AHEAD)) do
      if is_before(entry[2]) then
        break
      end
      table.insert(ahead, 1, entry)
    end
  end
  local place = offer(priority, id, body, sent, due, tries, no, expired)
  for _, entry in ipairs(ahead) do
    local fields = entry[2]
    call('XDEL', KEYS[priority], entry[1])
    local moved = offer(
      priority, fields[2], fields[4], fields[6], fields[8], fields[10], fields[12], fields[14])
    local lease = fields[14] and call('HGET', LEASE_DATA, fields[2])
    if lease then
      local token, _, of, deliveries, when, worker, number = unpack_values(lease)
      call('HSET', LEASE_DATA, fields[2], pack_lease(token, moved, of, deliveries, when, worker, number))
    end
  end
  return place
end

-- A delayed message has become due.
local function make_due(member, due)
  local no, priority, sent, id = delayed_parts(member)
  local held = call('HGET', HELD, id)
  call('ZREM', DELAYED, member)
  if held then
    local tries, body = unpack_values(held)
    call('HDEL', HELD, id)
    call('ZADD', SENT, sent, id)
    offer_in_order(tonumber(priority), id, body, sent, due, tries, tonumber(no))
  end
end

-- A lease has run out: to the end of the stream, for that is where it stands by the time it became due again.
local function expire_lease(id, ended)
  local lease = call('HGET', LEASE_DATA, id)
  call('ZREM', LEASES, id)
  if not lease then
    return
  end
  local token, entry, priority, deliveries, sent, worker, no = unpack_values(lease)
  local found = call('XRANGE', KEYS[priority], entry, entry)[1]
  call('XACK', KEYS[priority], GROUP, entry)
  call('XDEL', KEYS[priority], entry)
  if found then
    entry = offer_in_order(priority, id, found[2][4], sent, ended, deliveries, no, true)
    call('HSET', LEASE_DATA, id, pack_lease(token, entry, priority, deliveries, sent, worker, no))
  end
end

-- Of leases that end at the same moment, what was sent first comes first: a zset has them by id.
local function in_order(leases)
  local list = {}
  for place = 1, #leases, 2 do
    local lease = call('HGET', LEASE_DATA, leases[place])
    local no = lease and select(7, unpack_values(lease)) or 0
    list[#list + 1] = {tonumber(leases[place + 1]), no, place}
  end
  table.sort(list, function(one, other)
    for place = 1, 3 do
      if one[place] ~= other[place] then
        return one[place] < other[place]
      end
    end
    return false
  end)
  local sorted = {}
  for _, one in ipairs(list) do
    sorted[#sorted + 1] = leases[one[3]]
    sorted[#sorted + 1] = leases[one[3] + 1]
  end
  return sorted
end

-- Whatever has become due by `now` goes into the streams, in that order. True when some of it may be left.
local function bring_due(now, most)
  local leases = in_order(call('ZRANGEBYSCORE', LEASES, '-inf', now, 'WITHSCORES', 'LIMIT', 0, most))
  local delayed = call('ZRANGEBYSCORE', DELAYED, '-inf', now, 'WITHSCORES', 'LIMIT', 0, most)
  local lease, late = 1, 1
  for _ = 1, math.min(most, (#leases + #delayed) / 2) do
    local ended, due = tonumber(leases[lease + 1]), tonumber(delayed[late + 1])
    if ended and (not due or ended <= due) then
      expire_lease(leases[lease], leases[lease + 1])
      lease = lease + 2
    else
      make_due(delayed[late], delayed[late + 1])
      late = late + 2
    end
  end
  return (#leases + #delayed) / 2 >= most
end

-- Due at once, unless others that are due have not been brought yet: then it stands behind them.
local function put(priority, id, body, sent, due, tries, no, now, crowded)
  if crowded or tonumber(due) > tonumber(now) then
    call('ZREM', SENT, id)
    delay(priority, id, body, sent, due, tries, no)
  else
    call('ZADD', SENT, sent, id)
    offer_in_order(priority, id, body, sent, due, tries, no)
  end
end

-- What the holder of this token has: priority, body, deliveries, sent, worker, no; it is out of all places then.
-- Nil when the lease belongs to another consumer.
local function end_lease(id, token)
  local lease = call('HGET', LEASE_DATA, id)
  if not lease then
    return nil
  end
  local mine, entry, priority, deliveries, sent, worker, no = unpack_values(lease)
  if mine ~= token then
    return nil
  end
  local found = call('XRANGE', KEYS[priority], entry, entry)[1]
  call('XACK', KEYS[priority], GROUP, entry)
  call('XDEL', KEYS[priority], entry)
  call('HDEL', LEASE_DATA, id)
  call('ZREM', LEASES, id)
  return priority, found and found[2][4] or '', deliveries, sent, worker, no
end
