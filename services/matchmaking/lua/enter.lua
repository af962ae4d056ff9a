-- ARGV: ticket, now, create (1 or 0), lease end, near, also, who, reserve, epoch, seconds to keep an end
-- A ticket that is not there is made, or, with create 0, made as cancelled: it can then never be made any more.
-- Returns the ticket's answer.
local ticket, now, create, lease = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local key = key_of(ticket)
local t = redis.call('HMGET', key, 'state', 'absent', 'joined', 'near', 'also', 'reserve', 'table', 'matched')
if not t[1] then
  if create == '0' then
    redis.call('HSET', key, 'state', 'cancelled', 'joined', now)
    redis.call('EXPIRE', key, ARGV[10])
    return told('cancelled', now)
  end
  redis.call('SET', room .. ':epoch', ARGV[9], 'NX')
  -- With whom its player sat last: his ticket before this one knows.
  local player, number = string.match(ticket, '^(.*)%-(%d+)$')
  local recent = redis.call('HGET', key_of(player .. '-' .. string.format('%d', number - 1)), 'recent') or ''
  redis.call('HSET', key, 'state', 'waiting', 'joined', now, 'near', ARGV[5], 'also', ARGV[6], 'who', ARGV[7],
    'reserve', ARGV[8], 'recent', recent, 'absent', 0)
  redis.call('ZADD', LEASE, lease, ticket)
  offer(ticket, now, ARGV[5], ARGV[6], ARGV[8], 0)
  return told('waiting', now)
elseif t[1] == 'waiting' then
  redis.call('ZADD', LEASE, 'GT', lease, ticket)
  if t[2] == '1' then
    redis.call('HSET', key, 'absent', 0)
    offer(ticket, t[3], t[4], t[5], t[6], 0)
  end
end
return told(t[1], t[3], t[7], t[8])
