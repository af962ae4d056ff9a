-- Shared by all scripts of a room. Every key begins with KEYS[1] = "mm:{room}", so a cluster keeps a room on one node.
--   :t:<ticket>  hash: a ticket                            :index  waiting tickets by strength
--   :age         waiting tickets by arrival                :due    waiting tickets by when to look for others next
--   :bots        waiting bots that only fill tables        :lease  waiting tickets by when their owner counts as gone
--   :claims      claims by the end of their lease          :owners claim -> the matcher that holds it
--   :usual       what matched tickets waited, on average   :epoch  this life of the queue
--   :made        matches that JetStream has not been told of yet
-- A claim is its three ticket ids, sorted, joined by commas. Members of index, age, due and bots are
-- "<arrival ms, 15 digits>|<near>|<also>|<ticket>", so that equals sort by arrival and need no further look-up.
local room = KEYS[1]
local INDEX, AGE, DUE, BOTS = room .. ':index', room .. ':age', room .. ':due', room .. ':bots'
local LEASE, CLAIMS, OWNERS, USUAL = room .. ':lease', room .. ':claims', room .. ':owners', room .. ':usual'

local function key_of(ticket)
  return room .. ':t:' .. ticket
end

local function player_of(ticket)
  return string.match(ticket, '^(.*)%-%d+$')
end

local function member_of(joined, near, also, ticket)
  return string.format('%015d|%d|%d|%s', joined, near, also, ticket)
end

local function parse(member)
  local joined, near, also, ticket = string.match(member, '^(%d+)|(-?%d+)|(-?%d+)|(.+)$')
  return tonumber(joined), tonumber(near), tonumber(also), ticket
end

-- Takes a ticket out of everything that is searched.
local function withdraw(member, reserve)
  if reserve == '1' then
    redis.call('ZREM', BOTS, member)
  else
    redis.call('ZREM', INDEX, member)
    redis.call('ZREM', AGE, member)
    redis.call('ZREM', DUE, member)
  end
end

-- Puts a waiting ticket where it can be found; its place in the queue is that of its arrival. Due 0: before all others.
local function offer(ticket, joined, near, also, reserve, due)
  local member = member_of(joined, near, also, ticket)
  if reserve == '1' then
    redis.call('ZADD', BOTS, joined, member)
  else
    redis.call('ZADD', INDEX, near, member)
    redis.call('ZADD', AGE, joined, member)
    redis.call('ZADD', DUE, due, member)
  end
end

-- Ends a waiting ticket.
local function finish_waiting(ticket, state, keep_s)
  local key = key_of(ticket)
  local t = redis.call('HMGET', key, 'joined', 'near', 'also', 'reserve')
  withdraw(member_of(t[1], t[2], t[3], ticket), t[4])
  redis.call('ZREM', LEASE, ticket)
  redis.call('HSET', key, 'state', state)
  redis.call('EXPIRE', key, keep_s)
end

-- A ticket as callers read it: state, joined, table, position (0 = not waiting), when it was matched.
local function told(state, joined, seated, matched)
  local position = 0
  if state == 'waiting' then
    position = redis.call('ZCOUNT', AGE, '-inf', '(' .. joined) + 1
  end
  return {state, joined, seated or '', position, matched or ''}
end

-- The same of a ticket in Redis; false when there is none.
local function answer(ticket)
  local t = redis.call('HMGET', key_of(ticket), 'state', 'joined', 'table', 'matched')
  return t[1] and told(t[1], t[2], t[3], t[4])
end
