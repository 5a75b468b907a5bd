-- now, when the ids are forgotten, then id and token of each. The ids whose lease belongs to another consumer.
local now, forgotten = ARGV[1], ARGV[2]
local ids = every_second(3)
local lease_data = ask_each(ids, 'HMGET', LEASE_DATA)
local done, remembered, entries, lost = {}, {}, {}, {}
for place, id in ipairs(ids) do
  local token, entry, priority
  if lease_data[place] then
    token, entry, priority = unpack_values(lease_data[place])
  end
  if token == ARGV[place * 2 + 2] then
    entries[priority] = entries[priority] or {}
    table.insert(entries[priority], entry)
    done[#done + 1] = id
    remembered[#remembered + 1] = forgotten
    remembered[#remembered + 1] = id
  else
    lost[#lost + 1] = id
  end
end
for priority, list in pairs(entries) do
  with_all(list, 'XACK', KEYS[priority], GROUP)
  with_all(list, 'XDEL', KEYS[priority])
end
with_all(done, 'HDEL', LEASE_DATA)
with_all(done, 'ZREM', LEASES)
with_all(done, 'ZREM', SENT)
with_all(done, 'HDEL', TRIALS)
with_all(remembered, 'ZADD', IDS)
count('acknowledged', #done, now)
return lost
