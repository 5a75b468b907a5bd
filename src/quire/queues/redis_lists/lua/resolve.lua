-- "replay" or "discard", now, seconds between two, moment as text, ids. How many dead letters were there and are no
-- longer: back in the queue, oldest first, or deleted for good.
local act, now, apart, trial = ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6]
local wanted, left = {}, 0
for place = 7, #ARGV do
  wanted[ARGV[place]] = true
  left = left + 1
end
local found = {}
local length = call('LLEN', DEAD)
for first = 0, length - 1, MOST do
  local entries = call('LRANGE', DEAD, -first - MOST, -first - 1)
  for place = #entries, 1, -1 do
    local id = id_of(entries[place])
    if wanted[id] then
      wanted[id] = nil
      left = left - 1
      found[#found + 1] = {entries[place], id}
    end
  end
  if left == 0 then
    break
  end
end
bring_due(now)
for place, one in ipairs(found) do
  local entry, id = one[1], one[2]
  local told = call('HGET', REASONS, id) or ''
  call('LREM', DEAD, 0, entry)
  call('HDEL', REASONS, id)
  if IS_RQ then
    call('ZREM', 'rq:failed:' .. QUEUE, entry)
  end
  if act == 'discard' then
    if IS_RQ then
      call('DEL', job(entry))
    end
  else
    local deliveries = string.match(told, '"deliveries":(%d+)') or 0
    call('HSET', TRIES, id, pack(0, string.match(told, '^[^\n]*\n(.*)$') or ''))
    record(id, deliveries, '', trial)
    local due = tonumber(now) + apart * (place - 1)
    if due > tonumber(now) then
      delay(entry, string.format('%.6f', due))
    else
      append(entry)
    end
  end
end
count(act == 'discard' and 'discarded' or 'replayed', #found, now)
return #found
