-- now, until, token, worker, limit. Flat: id, body, deliveries, priority and sent of each.
local now, ends, token, worker = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local left = tonumber(ARGV[5])
bring_due(now, math.max(MOST, left))
local answer, lease_data, leases, expired = {}, {}, {}, 0
for priority = 1, LEAST do
  if left > 0 and call('XLEN', KEYS[priority]) > 0 then
    local read = call('XREADGROUP', 'GROUP', GROUP, GROUP, 'COUNT', left, 'STREAMS', KEYS[priority], '>')
    for _, entry in ipairs(read and read[1][2] or {}) do
      local fields = entry[2]
      local id, sent, deliveries = fields[2], fields[6], tonumber(fields[10]) + 1
      if fields[14] then
        expired = expired + 1
        local lease = call('HGET', LEASE_DATA, id)
        if lease then
          local _, _, _, delivery, _, who = unpack_values(lease)
          record(id, delivery, who, '"at":' .. now .. ',"ending":"expired"}')
        end
      end
      lease_data[#lease_data + 1] = id
      lease_data[#lease_data + 1] = pack_lease(token, entry[1], priority, deliveries, sent, worker, tonumber(fields[12]))
      leases[#leases + 1] = ends
      leases[#leases + 1] = id
      local place = #answer
      answer[place + 1] = id
      answer[place + 2] = fields[4]
      answer[place + 3] = deliveries
      answer[place + 4] = priority
      answer[place + 5] = sent
      left = left - 1
    end
  end
end
with_all(lease_data, 'HSET', LEASE_DATA)
with_all(leases, 'ZADD', LEASES)
count('delivered', #lease_data / 2, now)
count('expired', expired, now)
return answer
