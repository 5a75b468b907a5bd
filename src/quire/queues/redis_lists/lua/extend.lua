-- now, until, seconds of the sign of life, tokens. The tokens of leases that are gone.
local now, ends, seconds = ARGV[3], ARGV[4], ARGV[5]
local lost, alive = {}, {}
for place = 6, #ARGV do
  local token = ARGV[place]
  local held = call('ZSCORE', LEASES, token)
  local lease = held and tonumber(held) > tonumber(now) and call('HGET', LEASED, token)
  if lease then
    local _, _, worker = unpack_values(lease)
    call('ZADD', LEASES, ends, token)
    if not alive[worker] then
      alive[worker] = true
      show_alive(worker, seconds)
    end
  else
    lost[#lost + 1] = token
  end
end
bring_due(now)
return lost
