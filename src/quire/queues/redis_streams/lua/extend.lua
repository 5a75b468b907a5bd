-- now, until, then id and token of each. The ids whose lease has run out or belongs to another consumer.
local now, ends = ARGV[1], ARGV[2]
local ids = every_second(3)
local lease_data, leases = ask_each(ids, 'HMGET', LEASE_DATA), ask_each(ids, 'ZMSCORE', LEASES)
local ids_kept, kept, lost = {}, {}, {}
for place, id in ipairs(ids) do
  local token = lease_data[place] and unpack_values(lease_data[place])
  if token == ARGV[place * 2 + 2] and leases[place] and tonumber(leases[place]) > tonumber(now) then
    ids_kept[#ids_kept + 1] = id
    kept[#kept + 1] = ends
    kept[#kept + 1] = id
  else
    lost[#lost + 1] = id
  end
end
-- A full server lets a script write that has begun with taking away: leases are kept there too.
with_all(ids_kept, 'ZREM', LEASES)
with_all(kept, 'ZADD', LEASES)
return lost
