-- now, how many at most. How many were deleted; call again until it is none.
local now, left = ARGV[1], tonumber(ARGV[2])
bring_due(now, left)
local gone = {}
for priority = 1, LEAST do
  if call('EXISTS', KEYS[priority]) == 1 then
    local from = '(' .. last_delivered(priority)
    local entries
    repeat
      -- Few at a time: they come with their bodies.
      entries = call('XRANGE', KEYS[priority], from, '+', 'COUNT', math.min(100, left))
      for _, entry in ipairs(entries) do
        gone[#gone + 1] = entry[2][2]
        call('XDEL', KEYS[priority], entry[1])
        left = left - 1
      end
    until #entries == 0 or left == 0
  end
  if left == 0 then
    break
  end
end
if left > 0 then
  for _, member in ipairs(call('ZRANGE', DELAYED, 0, left - 1)) do
    local _, _, _, id = delayed_parts(member)
    gone[#gone + 1] = id
    call('ZREM', DELAYED, member)
    call('HDEL', HELD, id)
  end
end
with_all(gone, 'HDEL', LEASE_DATA)
with_all(gone, 'HDEL', TRIALS)
with_all(gone, 'ZREM', SENT)
with_all(gone, 'ZREM', IDS)
count('discarded', #gone, now)
return #gone
