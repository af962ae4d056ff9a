-- Shared by all scripts of a room. Every key begins with KEYS[1] = "mm:{room}", so a cluster keeps a room on one node.
--   :t:<ticket>  hash: a ticket                            :index  waiting tickets by strength
--   :age         waiting tickets by arrival                :due    waiting tickets by when to look for others next
--   :bots        waiting bots that only fill tables        :lease  waiting tickets by when their owner counts as gone
--   :claims      claims by the end of their lease          :owners claim -> the matcher that holds it
--   :waits       what the last matched tickets waited      :epoch  this life of the queue
--   :made        matches that JetStream has not been told of yet
-- A claim is its three ticket ids, sorted, joined by commas. Members of index, age, due and bots are
-- "<arrival ms, 15 digits>|<second coordinate>|<ticket>", so that equals sort by arrival and need no further look-up.
local room = KEYS[1]
local INDEX, AGE, DUE, BOTS = room .. ':index', room .. ':age', room .. ':due', room .. ':bots'
local LEASE, CLAIMS, OWNERS, WAITS = room .. ':lease', room .. ':claims', room .. ':owners', room .. ':waits'

local function key_of(ticket)
  return room .. ':t:' .. ticket
end

local function member_of(joined, also, ticket)
  return string.format('%015d|%d|%s', joined, also, ticket)
end

local function parse(member)
  local joined, also, ticket = string.match(member, '^(%d+)|(-?%d+)|(.+)$')
  return tonumber(joined), tonumber(also), ticket
end

-- Takes a ticket out of everything that is searched.
local function withdraw(ticket, joined, also)
  local member = member_of(joined, also, ticket)
  redis.call('ZREM', INDEX, member)
  redis.call('ZREM', AGE, member)
  redis.call('ZREM', DUE, member)
  redis.call('ZREM', BOTS, member)
end

-- Puts a waiting ticket where it can be found; its place in the queue is that of its arrival.
local function offer(ticket, joined, near, also, reserve, due)
  local member = member_of(joined, also, ticket)
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
  local t = redis.call('HMGET', key, 'joined', 'also')
  withdraw(ticket, tonumber(t[1]), tonumber(t[2]))
  redis.call('ZREM', LEASE, ticket)
  redis.call('HSET', key, 'state', state)
  redis.call('EXPIRE', key, keep_s)
end

-- A ticket as callers read it: state, joined, table, position (0 = not waiting), player; nil when there is none.
local function answer(ticket)
  local t = redis.call('HMGET', key_of(ticket), 'state', 'joined', 'table', 'also', 'matched')
  if not t[1] then return false end
  local position = 0
  if t[1] == 'waiting' then
    position = redis.call('ZCOUNT', AGE, '-inf', '(' .. t[2]) + 1
  end
  return {t[1], t[2], t[3] or '', position, t[5] or ''}
end
