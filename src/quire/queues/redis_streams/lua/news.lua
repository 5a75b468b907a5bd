-- 1 when something waits in the streams; then the last wake, to wait for a newer one.
local waits = 0
for priority = 1, LEAST do
  local length = call('XLEN', KEYS[priority])
  if length > 0 and length > call('XPENDING', KEYS[priority], GROUP)[1] then
    waits = 1
  end
end
local last = call('XREVRANGE', WAKE, '+', '-', 'COUNT', 1)[1]
return {waits, last and last[1] or '0-0'}
