-- now, forget. How many ids were forgotten; counters older than an hour are deleted with them.
local oldest = math.floor((tonumber(ARGV[3]) - 3600) / 60)
for _, field in ipairs(call('HKEYS', COUNTS)) do
  local minute = tonumber(string.match(field, '^(-?%d+) '))
  if minute and minute < oldest then
    call('HDEL', COUNTS, field)
  end
end
return call('ZREMRANGEBYSCORE', SENT, '-inf', ARGV[4])
