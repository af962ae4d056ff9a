-- An instance watches a ticket no more. Unless another one does since, the ticket is matched with nobody until its owner
-- is back, and ends when he is not back in time.   ARGV: ticket, watching instance, lease end
local ticket, watcher = ARGV[1], ARGV[2]
local key = key_of(ticket)
local t = redis.call('HMGET', key, 'state', 'watcher', 'joined', 'near', 'also', 'reserve')
if (t[1] ~= 'waiting' and t[1] ~= 'claimed') or t[2] ~= watcher then return 0 end
redis.call('HSET', key, 'absent', 1)
if t[1] == 'waiting' then
  withdraw(member_of(t[3], t[4], t[5], ticket), t[6])
  redis.call('ZADD', LEASE, ARGV[3], ticket)
end
return 1
