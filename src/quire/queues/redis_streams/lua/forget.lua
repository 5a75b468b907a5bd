-- A name and a time. The only script with a key of its own, 1: zset of all queues, by when something was last sent.
-- A sender writes the name first: so a queue that was empty a moment ago is not removed then.
local sent = call('ZSCORE', KEYS[1], ARGV[1])
if sent and tonumber(sent) <= tonumber(ARGV[2]) then
  call('ZREM', KEYS[1], ARGV[1])
end
return 0
