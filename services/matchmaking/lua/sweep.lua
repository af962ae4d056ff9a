-- Ends tickets whose owner is gone or that have waited too long, and takes over claims whose matcher is gone.
-- ARGV: now, arrival before which a ticket has waited too long, how many of each at most, new claim lease end, owner,
--       seconds to keep an end, lease up to which an owner is gone
-- Returns {{ended ticket, why, ...}, epoch, {claim, who, joined, who, joined, who, joined}, ...}.
local now, limit = ARGV[1], ARGV[3]
local ended = {}
local function expire(ticket, why)
  finish_waiting(ticket, 'expired', ARGV[6])
  ended[#ended + 1] = ticket
  ended[#ended + 1] = why
end
for _, ticket in ipairs(redis.call('ZRANGEBYSCORE', LEASE, '-inf', ARGV[7], 'LIMIT', 0, limit)) do
  expire(ticket, 'gone')
end
for _, member in ipairs(redis.call('ZRANGEBYSCORE', AGE, '-inf', ARGV[2], 'LIMIT', 0, limit)) do
  local _, _, _, ticket = parse(member)
  expire(ticket, 'too_long')
end
local result = {ended, redis.call('GET', room .. ':epoch') or ''}
for _, claim in ipairs(redis.call('ZRANGEBYSCORE', CLAIMS, '-inf', now, 'LIMIT', 0, limit)) do
  redis.call('ZADD', CLAIMS, ARGV[4], claim)
  redis.call('HSET', OWNERS, claim, ARGV[5])
  local found = {claim}
  for ticket in string.gmatch(claim, '[^,]+') do
    local t = redis.call('HMGET', key_of(ticket), 'who', 'joined')
    found[#found + 1] = t[1]
    found[#found + 1] = t[2]
  end
  result[#result + 1] = found
end
return result
