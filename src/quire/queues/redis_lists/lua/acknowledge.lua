-- now, moment as RQ writes it, seconds for which RQ keeps a finished job, tokens. The tokens of leases that are gone.
local now, moment, keep = ARGV[3], ARGV[4], ARGV[5]
local lost = {}
for place = 6, #ARGV do
  local entry, id = end_lease(ARGV[place])
  if not entry then
    lost[#lost + 1] = ARGV[place]
  else
    call('HDEL', TRIES, id)
    -- A job that was sent again while it was worked on waits: its hash is needed.
    if IS_RQ and call('HGET', job(entry), 'status') == 'started' then
      call('HSET', job(entry), 'status', 'finished', 'ended_at', moment)
      call('EXPIRE', job(entry), keep)
    end
  end
end
count('acknowledged', #ARGV - 5 - #lost, now)
bring_due(now)
return lost
