-- now, limit. Flat: id, body, priority, deliveries, sent, due and worker (empty: leased by nobody) of each.
-- First due, then delayed, then leased messages, each by priority and time. Changes nothing.
local now, limit = ARGV[1], tonumber(ARGV[2])
local found = {}

local function see(group, priority, due, no, fetch)
  found[#found + 1] = {group, priority, tonumber(due), tonumber(no), due, fetch}
end

local function see_delayed(group, from, to)
  local late = call('ZRANGEBYSCORE', DELAYED, from, to, 'WITHSCORES', 'LIMIT', 0, MOST)
  for place = 1, #late, 2 do
    local no, priority, sent, id = delayed_parts(late[place])
    see(group, tonumber(priority), late[place + 1], no, function()
      local tries, body = unpack_values(call('HGET', HELD, id))
      return id, body, tries, sent, ''
    end)
  end
end

local function see_leases(group, from, to)
  local leases = call('ZRANGEBYSCORE', LEASES, from, to, 'WITHSCORES', 'LIMIT', 0, MOST)
  for place = 1, #leases, 2 do
    local id = leases[place]
    local _, entry, priority, deliveries, sent, worker, no = unpack_values(call('HGET', LEASE_DATA, id))
    see(group, priority, leases[place + 1], no, function()
      local one = call('XRANGE', KEYS[priority], entry, entry)[1]
      return id, one and one[2][4] or '', deliveries, sent, group == 3 and worker or ''
    end)
  end
end

local streamed = 0
for priority = 1, LEAST do
  if streamed < limit and call('XLEN', KEYS[priority]) > 0 then
    local from = '(' .. last_delivered(priority)
    for _, entry in ipairs(call('XRANGE', KEYS[priority], from, '+', 'COUNT', limit)) do
      local fields = entry[2]
      streamed = streamed + 1
      see(1, priority, fields[8], fields[12], function()
        return fields[2], fields[4], tonumber(fields[10]), fields[6], ''
      end)
    end
  end
end
see_delayed(1, '-inf', now)
see_leases(1, '-inf', now)
see_delayed(2, '(' .. now, '+inf')
see_leases(3, '(' .. now, '+inf')
table.sort(found, function(one, other)
  for place = 1, 4 do
    if one[place] ~= other[place] then
      return one[place] < other[place]
    end
  end
  return false
end)
local answer = {}
for place = 1, math.min(limit, #found) do
  local _, priority, _, _, due, fetch = unpack(found[place])
  local id, body, deliveries, sent, worker = fetch()
  for _, value in ipairs({id, body, priority, deliveries, sent, due, worker}) do
    answer[#answer + 1] = value
  end
end
return answer
