-- now. When the next delay or lease ends, as text; nil: there is none.
bring_due(ARGV[3])
local next_one
for _, key in ipairs({DELAYED, LEASES}) do
  local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
  if first and (not next_one or tonumber(first) < tonumber(next_one)) then
    next_one = first
  end
end
return next_one
