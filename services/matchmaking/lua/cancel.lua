-- ARGV: ticket, seconds to keep an end. A waiting ticket is cancelled; any other stays as it is.
-- Returns {1 when this call cancelled it, the ticket's answer}.
local ticket = ARGV[1]
local state = redis.call('HGET', key_of(ticket), 'state')
local done = 0
if state == 'waiting' then
  finish_waiting(ticket, 'cancelled', ARGV[2])
  done = 1
end
return {done, answer(ticket)}
