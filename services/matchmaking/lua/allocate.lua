-- A player's tickets. KEYS[1]: his hash: n (how many), ticket, room, at (the latest), r<n> (rooms of the last few);
-- KEYS[2]: with whom he sat last, by commas
-- ARGV: player, room, now, the ticket that is known to have ended ('' = none)
-- Numbers a new ticket, unless another than the ended one has been numbered. Returns {ticket, room, at, with whom}.
local t = redis.call('HMGET', KEYS[1], 'ticket', 'room', 'at')
local recent = redis.call('GET', KEYS[2]) or ''
if (t[1] or '') ~= ARGV[4] then return {t[1], t[2], t[3], recent} end
local n = redis.call('HINCRBY', KEYS[1], 'n', 1)
local ticket = ARGV[1] .. '-' .. string.format('%d', n)
redis.call('HSET', KEYS[1], 'ticket', ticket, 'room', ARGV[2], 'at', ARGV[3], 'r' .. n, ARGV[2])
redis.call('HDEL', KEYS[1], 'r' .. (n - 8))
return {ticket, ARGV[2], ARGV[3], recent}
