-- ARGV: verb, claim, now, then by verb
--   matched: table, seconds to keep an end, news   The claim's tickets are matched, and the news is to be told.
--                                            Whoever opened the table may say so.
--   back:    owner, lease end, due, seconds to keep an end, tickets
--                                            They wait again, as long as before, but for those tickets of them, which
--                                            are cancelled; only the claim's owner may say so.
--   renew:   owner, lease end                The owner keeps the claim.
-- Returns 1 when it was done, 0 when the claim is gone or somebody else's.
local verb, claim, now = ARGV[1], ARGV[2], tonumber(ARGV[3])
if not redis.call('ZSCORE', CLAIMS, claim) then return 0 end
if verb ~= 'matched' and redis.call('HGET', OWNERS, claim) ~= ARGV[4] then return 0 end
if verb == 'renew' then
  redis.call('ZADD', CLAIMS, ARGV[5], claim)
  return 1
end
redis.call('ZREM', CLAIMS, claim)
redis.call('HDEL', OWNERS, claim)
local cancelled = {}
for i = 8, #ARGV do
  cancelled[ARGV[i]] = true
end
local players, waits = {}, {}
for ticket in string.gmatch(claim, '[^,]+') do
  players[#players + 1] = player_of(ticket)
end
for ticket in string.gmatch(claim, '[^,]+') do
  local key = key_of(ticket)
  local t = redis.call('HMGET', key, 'joined', 'near', 'also', 'reserve', 'absent')
  if verb == 'matched' then
    redis.call('HSET', key, 'state', 'matched', 'table', ARGV[4], 'matched', now, 'recent',
      table.concat(players, ','))
    redis.call('EXPIRE', key, ARGV[5])
    if t[4] ~= '1' then waits[#waits + 1] = now - tonumber(t[1]) end
  elseif cancelled[ticket] then
    redis.call('HSET', key, 'state', 'cancelled')
    redis.call('EXPIRE', key, ARGV[7])
  else
    redis.call('HSET', key, 'state', 'waiting')
    redis.call('ZADD', LEASE, ARGV[5], ticket)
    if t[5] ~= '1' then offer(ticket, t[1], t[2], t[3], t[4], ARGV[6]) end
  end
end
if verb == 'matched' then
  redis.call('HSET', room .. ':made', ARGV[4], ARGV[6])
  local usual = tonumber(redis.call('GET', USUAL) or waits[1])
  for _, wait in ipairs(waits) do
    usual = usual + (wait - usual) / 30 -- the last thirty or so count
  end
  if usual then redis.call('SET', USUAL, string.format('%.1f', usual)) end
end
return 1
