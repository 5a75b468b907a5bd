-- now. Waiting, delayed, leased, dead, and what waits longest (empty: nothing). Changes nothing.
local now = ARGV[3]
local later = '(' .. now
local due = call('ZCOUNT', DELAYED, '-inf', now) + call('ZCOUNT', LEASES, '-inf', now)
local oldest = call('LINDEX', LIST, IS_RQ and 0 or -1)
if oldest and IS_RQ then
  oldest = call('HGET', job(oldest), 'data')
end
return {
  call('LLEN', LIST) + due, call('ZCOUNT', DELAYED, later, '+inf'), call('ZCOUNT', LEASES, later, '+inf'),
  call('LLEN', DEAD), oldest or '',
}
