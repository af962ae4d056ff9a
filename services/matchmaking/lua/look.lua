-- Looks for others for the tickets that are due, and claims threes. A ticket is due when it comes, whenever its window
-- widens, and every so often after that.
-- ARGV: now, how many to look for, claim lease end, owner, nearest on each side, oldest, age from which a rematch is
--       allowed, age from which bots fill (0 = never), when to look again at the end, then the windows: age, near, also, ...
-- Returns {how many were looked for, epoch, {claim, who, joined, who, joined, who, joined}, ...}, who in the claim's order.
local now, limit, lease, owner = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
local nearest, oldest, rematch, fill, again =
  tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local windows = {}
for i = 10, #ARGV, 3 do
  windows[#windows + 1] = {age = tonumber(ARGV[i]), near = tonumber(ARGV[i + 1]), also = tonumber(ARGV[i + 2])}
end

local function window(age)
  local found = windows[1]
  for _, entry in ipairs(windows) do
    if entry.age <= age then found = entry end
  end
  return found
end

local function recent_of(one)
  if one.recent == nil then
    one.recent = ',' .. (redis.call('HGET', key_of(one.ticket), 'recent') or '') .. ','
  end
  return one.recent
end

local function sat_together(one, other)
  return string.find(recent_of(one), ',' .. player_of(other.ticket) .. ',', 1, true) ~= nil
    or string.find(recent_of(other), ',' .. player_of(one.ticket) .. ',', 1, true) ~= nil
end

local function within(one, other, allowed)
  return math.abs(one.near - other.near) <= allowed.near and math.abs(one.also - other.also) <= allowed.also
end

-- The same tickets come into question for many, above all the oldest: each is made out once in a look.
local tickets = {}

local function ticket_at(member)
  local one = tickets[member]
  if not one then
    local joined, near, also, ticket = parse(member)
    one = {member = member, ticket = ticket, joined = joined, near = near, also = also}
    tickets[member] = one
  end
  return one
end

local longest = nil -- waiting; asked for again when somebody has been claimed

local function the_oldest()
  longest = longest or redis.call('ZRANGE', AGE, 0, oldest - 1)
  return longest
end

local function window_of(one)
  one.window = one.window or window(now - one.joined)
  return one.window
end

-- No window is wider than that of the oldest.
local first = the_oldest()[1]
local widest = first and window(now - ticket_at(first).joined) or windows[1]

-- Who may come into question for `one`, the longest waiting first: its neighbours by strength, and the oldest of all.
local function candidates(one)
  local found, known = {}, {[one.member] = true}
  local function take(members)
    for _, member in ipairs(members) do
      if not known[member] then
        known[member] = true
        local other = ticket_at(member)
        if within(one, other, widest) then found[#found + 1] = other end
      end
    end
  end
  -- One more than asked for: the ticket finds itself on both sides.
  take(redis.call('ZRANGEBYSCORE', INDEX, one.near, one.near + widest.near, 'LIMIT', 0, nearest + 1))
  take(redis.call('ZREVRANGEBYSCORE', INDEX, one.near, one.near - widest.near, 'LIMIT', 0, nearest + 1))
  take(the_oldest())
  table.sort(found, function(a, b) return a.member < b.member end)
  return found
end

-- The oldest two whose spread with `one` is within the window of the oldest of the three.
local function two_of(one, others, rematches)
  local function suit(a, b, allowed)
    return within(a, b, allowed) and (rematches or not sat_together(a, b))
  end
  for i = 1, #others - 1 do
    local first = others[i]
    local allowed = window_of(first.joined < one.joined and first or one)
    if suit(one, first, allowed) then
      for j = i + 1, #others do
        local second = others[j]
        if suit(one, second, allowed) and suit(first, second, allowed) then return {one, first, second} end
      end
    end
  end
  return nil
end

local function three_with(one, others)
  local three = two_of(one, others, false)
  if three or #others < 2 then return three end
  local waited = now - math.min(one.joined, others[1].joined)
  if waited >= rematch or redis.call('ZCARD', AGE) == 3 then three = two_of(one, others, true) end
  return three
end

-- A three for `one`; or for one that has waited longer and could sit with it, perhaps with others that come before it.
local function three_for(one, others)
  local three = three_with(one, others)
  while three and three[2].joined < three[1].joined do
    local better = three_with(three[2], candidates(three[2]))
    if not better then break end
    three = better
  end
  return three
end

-- The oldest that fits, if there is one, and bots for the rest.
local function with_bots(one, others)
  local three = {one}
  for _, other in ipairs(others) do
    local allowed = window_of(other.joined < one.joined and other or one)
    if within(one, other, allowed) then
      three[2] = other
      break
    end
  end
  for _, member in ipairs(redis.call('ZRANGE', BOTS, 0, 2 - #three)) do
    three[#three + 1] = ticket_at(member)
    three[#three].reserve = '1'
  end
  return #three == 3 and three or nil
end

local claimed = {} -- by member, in this look

local function claim(three)
  local ids, by_id, people = {}, {}, {}
  longest = nil
  for _, one in ipairs(three) do
    ids[#ids + 1] = one.ticket
    by_id[one.ticket] = one
    claimed[one.member] = true
    if one.reserve == '1' then redis.call('ZREM', BOTS, one.member) else people[#people + 1] = one.member end
  end
  for _, key in ipairs({INDEX, AGE, DUE}) do
    redis.call('ZREM', key, unpack(people))
  end
  redis.call('ZREM', LEASE, unpack(ids))
  table.sort(ids)
  local id = table.concat(ids, ',')
  local found = {id}
  for _, ticket in ipairs(ids) do
    local one = by_id[ticket]
    redis.call('HSET', key_of(ticket), 'state', 'claimed')
    found[#found + 1] = redis.call('HGET', key_of(ticket), 'who')
    found[#found + 1] = one.joined
  end
  redis.call('ZADD', CLAIMS, lease, id)
  redis.call('HSET', OWNERS, id, owner)
  return found
end

local function look_again_at(one)
  for _, entry in ipairs(windows) do
    if one.joined + entry.age > now then return one.joined + entry.age end
  end
  return now + again
end

-- Newcomers first, for they may complete a three at once; but a quarter is kept for those who have waited.
local late = redis.call('ZRANGEBYSCORE', DUE, '(0', now, 'LIMIT', 0, limit)
local due = redis.call('ZRANGEBYSCORE', DUE, 0, 0, 'LIMIT', 0, limit - math.min(#late, math.floor(limit / 4)))
for i = 1, math.min(#late, limit - #due) do
  due[#due + 1] = late[i]
end
local result = {#due, redis.call('GET', room .. ':epoch') or ''}
for _, member in ipairs(due) do
  if not claimed[member] then -- a moment ago, by another that was due
    local one = ticket_at(member)
    local others = candidates(one)
    local three = three_for(one, others)
    if not three and fill > 0 and now - one.joined >= fill then three = with_bots(one, others) end
    if three then
      result[#result + 1] = claim(three) -- perhaps without `one`, which is still due then
    else
      local next_look = look_again_at(one)
      if fill > 0 and one.joined + fill > now then next_look = math.min(next_look, one.joined + fill) end
      redis.call('ZADD', DUE, next_look, member)
    end
  end
end
return result
