-- now, until, token, worker, limit. Flat: id, body, deliveries, priority and sent of each.
local now, ends, token, worker = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local left = tonumber(ARGV[5])
bring_due(now, math.max(MOST, left))
local answer, loans, leases, expired = {}, {}, {}, 0
for priority = 1, LEAST do
  if left > 0 and call('XLEN', KEYS[priority]) > 0 then
    local read = call('XREADGROUP', 'GROUP', GROUP, GROUP, 'COUNT', left, 'STREAMS', KEYS[priority], '>')
    for _, entry in ipairs(read and read[1][2] or {}) do
      local fields = entry[2]
      local id, sent, deliveries = fields[2], fields[6], tonumber(fields[10]) + 1
      if fields[14] then
        expired = expired + 1
        local loan = call('HGET', LOANS, id)
        if loan then
          local _, _, _, delivery, _, who = unpacked(loan)
          note(id, delivery, who, '"at":' .. now .. ',"ending":"expired"}')
        end
      end
      loans[#loans + 1] = id
      loans[#loans + 1] = lent(token, entry[1], priority, deliveries, sent, worker, tonumber(fields[12]))
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
with_all(loans, 'HSET', LOANS)
with_all(leases, 'ZADD', LEASES)
count('delivered', #loans / 2, now)
count('expired', expired, now)
return answer
