-- now. Waiting, delayed, leased, dead, and when the oldest was sent (empty: there is none). Changes nothing.
local now = ARGV[1]
local waiting = call('ZCOUNT', LEASES, '-inf', now) + call('ZCOUNT', DELAYED, '-inf', now)
for priority = 1, LEAST do
  if call('EXISTS', KEYS[priority]) == 1 then
    waiting = waiting + call('XLEN', KEYS[priority]) - call('XPENDING', KEYS[priority], GROUP)[1]
  end
end
local oldest = call('ZRANGE', SENT, 0, 0, 'WITHSCORES')[2]
for _, member in ipairs(call('ZRANGEBYSCORE', DELAYED, '-inf', now, 'LIMIT', 0, MOST)) do
  local _, _, sent = delayed_parts(member)
  if not oldest or tonumber(sent) < tonumber(oldest) then
    oldest = sent
  end
end
local later = '(' .. now
return {
  waiting, call('ZCOUNT', DELAYED, later, '+inf'), call('ZCOUNT', LEASES, later, '+inf'), call('ZCARD', DEAD_ORDER),
  oldest or '',
}
