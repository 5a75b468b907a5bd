-- now. The earliest time after it at which something delayed or leased may be delivered; empty: there is none.
local later = '(' .. ARGV[1]
local lease = call('ZRANGEBYSCORE', LEASES, later, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
local delayed = call('ZRANGEBYSCORE', DELAYED, later, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
if lease and (not delayed or tonumber(lease) < tonumber(delayed)) then
  return lease
end
return delayed or ''
