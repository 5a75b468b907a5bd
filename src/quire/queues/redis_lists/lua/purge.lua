-- now. How many waiting and delayed messages were deleted; what published programs have is not touched.
local now = ARGV[3]
bring_due(now)
local entries = call('LRANGE', LIST, 0, -1)
for _, member in ipairs(call('ZRANGE', DELAYED, 0, -1)) do
  entries[#entries + 1] = string.sub(member, 18)
end
for _, entry in ipairs(entries) do
  local id = id_of(entry)
  local token = call('HGET', RETURNED, id)
  if token then
    call('HDEL', RETURNED, id)
    call('HDEL', LEASED, token)
  end
  call('HDEL', TRIES, id)
  if IS_RQ then
    call('DEL', job(entry))
  end
end
call('DEL', LIST, DELAYED)
count('discarded', #entries, now)
return #entries
