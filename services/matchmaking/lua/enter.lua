-- ARGV: ticket, now, create (1 or 0), lease end, near, also, player, who, reserve, recent, epoch, seconds to keep an end
-- A ticket that is not there is made, or, with create 0, made as cancelled: it can then never be made any more.
-- Returns the ticket's answer.
local ticket, now, create, lease = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local key = key_of(ticket)
local t = redis.call('HMGET', key, 'state', 'absent', 'joined', 'near', 'also', 'reserve')
if not t[1] then
  if create == '0' then
    redis.call('HSET', key, 'state', 'cancelled', 'joined', now)
    redis.call('EXPIRE', key, ARGV[12])
    return answer(ticket)
  end
  redis.call('SET', room .. ':epoch', ARGV[11], 'NX')
  redis.call('HSET', key, 'state', 'waiting', 'joined', now, 'near', ARGV[5], 'also', ARGV[6], 'player', ARGV[7],
    'who', ARGV[8], 'reserve', ARGV[9], 'recent', ARGV[10], 'absent', 0)
  redis.call('ZADD', LEASE, lease, ticket)
  offer(ticket, now, ARGV[5], ARGV[6], ARGV[9], 0)
elseif t[1] == 'waiting' then
  redis.call('ZADD', LEASE, 'GT', lease, ticket)
  if t[2] == '1' then
    redis.call('HSET', key, 'absent', 0)
    offer(ticket, t[3], t[4], t[5], t[6], 0)
  end
end
return answer(ticket)
