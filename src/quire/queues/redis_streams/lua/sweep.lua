-- now, how many ids at most. How many ids were forgotten, how many messages were found again, and 1 when the
-- queue is empty and remembers nothing.
local now, most = ARGV[1], tonumber(ARGV[2])
local over = call('ZRANGEBYSCORE', IDS, '-inf', now, 'LIMIT', 0, most)
with_all(over, 'ZREM', IDS)
local oldest = math.floor((tonumber(now) - 3600) / 60)
for _, field in ipairs(call('HKEYS', COUNTS)) do
  local minute = tonumber(string.match(field, '^(-?%d+) '))
  if minute and minute < oldest then
    call('HDEL', COUNTS, field)
  end
end

-- An entry that was delivered but is leased by nobody would never be delivered again. No script leaves one behind; a
-- server that lost a part of its keys, or another program's XREADGROUP, does.
local function found_again(priority, entry)
  local fields = (call('XRANGE', KEYS[priority], entry, entry)[1] or {})[2]
  local id = fields and fields[2]
  local lease = id and call('HGET', LEASE_DATA, id)
  if lease then
    local _, current = unpack_values(lease)
    if current == entry and call('ZSCORE', LEASES, id) then
      return 0
    end
  end
  call('XACK', KEYS[priority], GROUP, entry)
  call('XDEL', KEYS[priority], entry)
  if not id or lease and select(2, unpack_values(lease)) ~= entry then
    return 0
  end
  if call('HEXISTS', HELD, id) == 1 or call('HEXISTS', DEAD, id) == 1 then
    return 0
  end
  call('HDEL', LEASE_DATA, id)
  call('ZADD', IDS, 'inf', id)
  call('ZADD', SENT, fields[6], id)
  offer(priority, id, fields[4], fields[6], now, tonumber(fields[10]) + 1, fields[12])
  return 1
end

local out, again = 0, 0
for priority = 1, LEAST do
  if call('EXISTS', KEYS[priority]) == 1 then
    out = out + call('XPENDING', KEYS[priority], GROUP)[1]
  end
end
if out ~= call('ZCARD', LEASES) then
  for priority = 1, LEAST do
    local from = '-'
    while call('EXISTS', KEYS[priority]) == 1 do
      local pending = call('XPENDING', KEYS[priority], GROUP, from, '+', MOST)
      for _, one in ipairs(pending) do
        again = again + found_again(priority, one[1])
        from = '(' .. one[1]
      end
      if #pending < MOST then
        break
      end
    end
  end
end
if again > 0 then
  wake()
end
local empty = call('ZCARD', IDS) == 0 and call('ZCARD', SENT) == 0 and call('ZCARD', DELAYED) == 0
return {#over, again, empty and 1 or 0}
