-- now, due, then id, body and priority of each message. How many were new.
local now, due = ARGV[1], ARGV[2]
local ids = {}
for place = 3, #ARGV, 3 do
  ids[#ids + 1] = ARGV[place]
end
local crowded = bring_due(now, MOST)
local later = crowded or tonumber(due) > tonumber(now)
local known, seen = ask_each(ids, 'ZMSCORE', IDS), {}
local new, sent = {}, {}
-- Numbers without a message are no harm.
local no = call('INCRBY', NUMBERS, #ids) - #ids
for place, id in ipairs(ids) do
  local forgotten = known[place]
  if not seen[id] and (not forgotten or tonumber(forgotten) <= tonumber(now)) then
    seen[id] = true
    no = no + 1
    new[#new + 1] = 'inf'
    new[#new + 1] = id
    local body, priority = ARGV[place * 3 + 1], tonumber(ARGV[place * 3 + 2])
    if later then
      delay(priority, id, body, now, due, 0, no)
    else
      sent[#sent + 1] = now
      sent[#sent + 1] = id
      offer(priority, id, body, now, due, '0', no)
    end
  end
end
if #new > 0 then
  with_all(new, 'ZADD', IDS)
  with_all(sent, 'ZADD', SENT)
  count('sent', #new / 2, now)
  -- Also for delayed messages: a consumer that waits for the next due one may have an earlier one now.
  wake()
end
return #new / 2
