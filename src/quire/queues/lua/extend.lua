-- now, until, then id and token of each. The ids whose lease has run out or is somebody else's.
local now, ends = ARGV[1], ARGV[2]
local ids = every_second(3)
local loans, leases = asked(ids, 'HMGET', LOANS), asked(ids, 'ZMSCORE', LEASES)
local kept, lost = {}, {}
for place, id in ipairs(ids) do
  local token = loans[place] and unpacked(loans[place])
  if token == ARGV[place * 2 + 2] and leases[place] and tonumber(leases[place]) > tonumber(now) then
    kept[#kept + 1] = ends
    kept[#kept + 1] = id
  else
    lost[#lost + 1] = id
  end
end
with_all(kept, 'ZADD', LEASES)
return lost
