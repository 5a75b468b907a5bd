-- worker. How many of the messages in its list nobody has leased, which wait again: left behind by a program that
-- died, of ours or of others. None while the worker shows a sign of life.
local worker = ARGV[3]
if call('EXISTS', QUEUE .. ':worker:' .. worker) == 1 then
  return 0
end
local held = {}
for _, token in ipairs(call('ZRANGE', LEASES, 0, -1)) do
  local lease = call('HGET', LEASED, token)
  if lease then
    local entry, _, who = unpack_values(lease)
    if who == worker then
      held[entry] = (held[entry] or 0) + 1
    end
  end
end
local found = 0
for _, entry in ipairs(call('LRANGE', processing(worker), 0, MOST - 1)) do
  if (held[entry] or 0) > 0 then
    held[entry] = held[entry] - 1
  else
    call('LREM', processing(worker), -1, entry)
    prepend(entry)
    found = found + 1
  end
end
return found
