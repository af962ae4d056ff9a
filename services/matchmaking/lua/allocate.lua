-- A player's tickets. KEYS[1]: his hash: n (how many), ticket, room, at (the latest), r<n> (rooms of the last few)
-- ARGV: player, room, now, the ticket that is known to have ended ('' = none)
-- Numbers a new ticket, unless another than the ended one has been numbered. Returns {ticket, room, at}.
local t = redis.call('HMGET', KEYS[1], 'ticket', 'room', 'at')
if (t[1] or '') ~= ARGV[4] then return t end
local n = redis.call('HINCRBY', KEYS[1], 'n', 1)
local ticket = ARGV[1] .. '-' .. string.format('%d', n)
redis.call('HSET', KEYS[1], 'ticket', ticket, 'room', ARGV[2], 'at', ARGV[3], 'r' .. n, ARGV[2])
if n > 8 then redis.call('HDEL', KEYS[1], 'r' .. (n - 8)) end
return {ticket, ARGV[2], ARGV[3]}
