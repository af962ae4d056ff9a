-- Keeps watched tickets alive and reads them.
-- ARGV: now, lease end, then for each ticket: ticket, watcher, attach (1: the newest watcher, 0: one that goes on)
-- Returns {{what the last matched tickets waited, ...}, the tickets' answers in order (0 for one that is not there)}.
local now, lease = ARGV[1], ARGV[2]
local result = {redis.call('LRANGE', WAITS, 0, -1)}
for i = 3, #ARGV, 3 do
  local ticket, watcher, attach = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local key = key_of(ticket)
  local t = redis.call('HMGET', key, 'state', 'absent', 'joined', 'near', 'also', 'reserve')
  if t[1] == 'waiting' or t[1] == 'claimed' then
    if attach == '1' or t[2] == '1' then redis.call('HSET', key, 'watcher', watcher, 'absent', 0) end
    if t[1] == 'waiting' then
      redis.call('ZADD', LEASE, 'GT', lease, ticket)
      if t[2] == '1' then offer(ticket, tonumber(t[3]), t[4], tonumber(t[5]), t[6], now) end
    end
  end
  result[#result + 1] = answer(ticket) or 0
end
return result
