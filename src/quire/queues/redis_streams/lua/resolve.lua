-- 'replay' or 'discard', now, dead per second (0: all at once) or when the ids are forgotten, then id and number
-- of each: one that was replayed and is dead again by now has another number. How many.
local what, now, how = ARGV[1], ARGV[2], tonumber(ARGV[3])
local crowded = what == 'replay' and bring_due(now, MOST)
local resolved = 0
for place = 4, #ARGV, 2 do
  local id = ARGV[place]
  local number = call('ZSCORE', DEAD_ORDER, id)
  if number and tonumber(number) == tonumber(ARGV[place + 1]) then
    local priority, deliveries, sent, _, class, _, body = unpack_values(call('HGET', DEAD, id))
    call('ZREM', DEAD_ORDER, id)
    call('HDEL', DEAD, id)
    if call('HINCRBY', CLASSES, class, -1) <= 0 then
      call('HDEL', CLASSES, class)
    end
    if what == 'replay' then
      record(id, deliveries, '""', '"at":' .. now .. ',"ending":"replayed"}')
      -- A new number: together they come in the order in which they became dead letters.
      local no, due = call('INCR', NUMBERS), now
      if how > 0 and resolved > 0 then
        due = string.format('%.17g', tonumber(now) + resolved / how)
      end
      put(priority, id, body, sent, due, 0, no, now, crowded)
    else
      call('HDEL', TRIALS, id)
      call('ZADD', IDS, ARGV[3], id)
    end
    resolved = resolved + 1
  end
end
if what == 'replay' then
  count('replayed', resolved, now)
  if resolved > 0 then
    wake()
  end
else
  count('discarded', resolved, now)
end
return resolved
