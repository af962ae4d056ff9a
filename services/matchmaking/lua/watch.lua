-- Keeps watched tickets alive and reads them.
-- ARGV: lease end, watching instance, attach (1: the newest, 0: it goes on), then the tickets
-- Returns {what matched tickets waited, on average, or '', the tickets' answers in order (0 for one that is not there)}.
local lease, watcher, attach = ARGV[1], ARGV[2], ARGV[3]
local result = {redis.call('GET', USUAL) or ''}
for i = 4, #ARGV do
  local ticket = ARGV[i]
  local key = key_of(ticket)
  local t = redis.call('HMGET', key, 'state', 'absent', 'joined', 'near', 'also', 'reserve', 'table', 'matched')
  if t[1] == 'waiting' or t[1] == 'claimed' then
    if attach == '1' or t[2] == '1' then redis.call('HSET', key, 'watcher', watcher, 'absent', 0) end
    if t[1] == 'waiting' then
      redis.call('ZADD', LEASE, 'GT', lease, ticket)
      if t[2] == '1' then offer(ticket, t[3], t[4], t[5], t[6], 0) end
    end
  end
  result[#result + 1] = t[1] and told(t[1], t[3], t[7], t[8]) or 0
end
return result
