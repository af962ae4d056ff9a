-- What must hold over the whole ledger, asked of the tables themselves. Read in one snapshot, beside live traffic.

CREATE FUNCTION ledger.totals()
  RETURNS TABLE (hands_settled bigint, hands_voided bigint, hands_open bigint, hands_reversed bigint, transfers bigint,
                 chips_sum bigint, rating_sum bigint, negative_balances bigint, outbox_pending bigint)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = ledger, pg_catalog, pg_temp AS $$
  WITH sums AS (
    SELECT unit, sum(amount) AS total FROM (
      SELECT unit, balance AS amount FROM balance
      UNION ALL
      SELECT t.unit, t.amount FROM transfer t JOIN account a USING (account_id) WHERE a.kind <> 'player'
    ) AS parts GROUP BY unit
  )
  SELECT
    (SELECT count(*) FROM settlement WHERE NOT voided), (SELECT count(*) FROM settlement WHERE voided),
    (SELECT count(DISTINCT hand_id) FROM open_seat), (SELECT count(*) FROM reversal), (SELECT count(*) FROM transfer),
    (SELECT coalesce(sum(total), 0)::bigint FROM sums WHERE unit = 'chips'),
    (SELECT coalesce(sum(total), 0)::bigint FROM sums WHERE unit = 'rating'),
    (SELECT count(*) FROM balance WHERE balance < 0), (SELECT count(*) FROM outbox)
$$;

-- Each returns one sentence for each thing that is wrong.

CREATE FUNCTION ledger.faults_of_accounts() RETURNS SETOF text
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = ledger, pg_catalog, pg_temp AS $$
  SELECT format('%s: the transfers sum to %s %s, not 0', key, sum(amount), unit)
  FROM transfer GROUP BY key, unit HAVING sum(amount) <> 0
  UNION ALL
  SELECT format('%s has %s %s, but the transfers sum to %s', b.player_id, b.balance, b.unit, coalesce(t.total, 0))
  FROM balance b
  LEFT JOIN (SELECT account_id, unit, sum(amount) AS total FROM transfer GROUP BY account_id, unit) AS t
    USING (account_id, unit)
  WHERE b.balance <> coalesce(t.total, 0)
  UNION ALL
  SELECT format('%s: the chain of %s breaks at transfer %s', a.player_id, step.unit, step.seq)
  FROM (
    SELECT account_id, unit, seq, amount, balance_after, lag(seq, 1, 0::bigint) OVER chain AS seq_before,
           lag(balance_after, 1, 0::bigint) OVER chain AS balance_before
    FROM transfer WHERE balance_after IS NOT NULL WINDOW chain AS (PARTITION BY account_id, unit ORDER BY seq)
  ) AS step JOIN account a USING (account_id)
  WHERE step.seq <> step.seq_before + 1 OR step.balance_after <> step.balance_before + step.amount
  UNION ALL
  SELECT format('%s: the account of %s counts %s transfers, there are %s', b.player_id, b.unit, b.seq, coalesce(n, 0))
  FROM balance b
  LEFT JOIN (SELECT account_id, unit, count(*) AS n FROM transfer GROUP BY account_id, unit) AS t
    USING (account_id, unit)
  WHERE b.seq <> coalesce(t.n, 0)
$$;

-- Transfers against what they belong to, both ways. `before` is null where nobody wrote it down.
CREATE FUNCTION ledger.faults_of_transfers() RETURNS SETOF text
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = ledger, pg_catalog, pg_temp AS $$
  WITH seat AS (
    SELECT h.hand_id, n, h.player_ids[n] AS player_id FROM hand h, generate_series(1, 3) AS n
  ), due AS (
    SELECT s.hand_id AS key, seat.player_id, 'chips'::unit AS unit, s.chips[n] AS amount, s.rake[n] AS rake,
           s.balance_before[n] AS before
    FROM settlement s JOIN seat USING (hand_id) WHERE s.chips[n] <> 0 OR s.rake[n] <> 0
    UNION ALL
    SELECT s.hand_id, seat.player_id, 'rating', s.rating[n], 0, s.rating_before[n]
    FROM settlement s JOIN seat USING (hand_id) WHERE s.rating[n] <> 0
    UNION ALL
    SELECT 'reverse:' || r.hand_id, seat.player_id, 'chips', r.chips[n], 0, r.chips_after[n] - r.chips[n]
    FROM reversal r JOIN seat USING (hand_id) WHERE r.chips[n] <> 0
    UNION ALL
    SELECT 'reverse:' || r.hand_id, seat.player_id, 'rating', r.rating[n], 0, r.rating_after[n] - r.rating[n]
    FROM reversal r JOIN seat USING (hand_id) WHERE r.rating[n] <> 0
    UNION ALL
    SELECT key, player_id, 'chips', chips, 0, chips_after - chips FROM granted
    UNION ALL
    SELECT s.hand_id, system.name, 'chips', system.amount, 0, NULL
    FROM settlement s, LATERAL (
      VALUES ('rake', s.rake[1] + s.rake[2] + s.rake[3]), ('flee', s.flee_chips)) AS system (name, amount)
    WHERE system.amount <> 0
  ), made AS (
    SELECT t.key, coalesce(a.player_id, a.kind::text) AS player_id, t.unit, t.amount, t.rake,
           t.balance_after - t.amount AS before
    FROM transfer t JOIN account a USING (account_id)
    WHERE a.kind = 'player' OR (a.kind IN ('rake', 'flee') AND t.kind <> 'reverse')
  )
  SELECT format('%s: %s of %s should be %s after %s, and is %s after %s', key, unit, player_id,
                coalesce(due.amount::text, 'nothing'), due.before, coalesce(made.amount::text, 'nothing'), made.before)
  FROM due FULL JOIN made USING (key, player_id, unit)
  WHERE due.amount IS DISTINCT FROM made.amount OR due.rake IS DISTINCT FROM made.rake
     OR due.before IS DISTINCT FROM made.before
  UNION ALL
  SELECT format('transfer %s.%s of %s is on no account', t.account_id, t.seq, t.key)
  FROM transfer t LEFT JOIN account a USING (account_id) WHERE a.account_id IS NULL
$$;

CREATE FUNCTION ledger.faults_of_hands(p_open_limit interval, p_news_limit interval) RETURNS SETOF text
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = ledger, pg_catalog, pg_temp AS $$
  SELECT format('%s is open and seats %s of its 3 players', h.hand_id, count(o.account_id))
  FROM hand h
  LEFT JOIN settlement s USING (hand_id)
  LEFT JOIN account a ON a.player_id = ANY (h.player_ids)
  LEFT JOIN open_seat o ON o.account_id = a.account_id AND o.hand_id = h.hand_id
  WHERE s.hand_id IS NULL
  GROUP BY h.hand_id HAVING count(o.account_id) <> 3
  UNION ALL
  SELECT format('%s has ended and still seats %s', o.hand_id, coalesce(a.player_id, o.account_id::text))
  FROM open_seat o JOIN settlement s USING (hand_id) LEFT JOIN account a USING (account_id)
  UNION ALL
  SELECT format('%s has a settlement and was never opened', s.hand_id)
  FROM settlement s LEFT JOIN hand h USING (hand_id) WHERE h.hand_id IS NULL
  UNION ALL
  SELECT format('%s was reversed and is not settled', r.hand_id)
  FROM reversal r LEFT JOIN settlement s USING (hand_id) WHERE s.voided IS NOT FALSE
  UNION ALL
  SELECT DISTINCT format('%s has been open since %s', h.hand_id, to_char(h.opened_at, 'YYYY-MM-DD HH24:MI:SS'))
  FROM open_seat o JOIN hand h USING (hand_id) WHERE h.opened_at < now() - p_open_limit
  UNION ALL
  SELECT format('news of %s (%s) wait since %s', key, subject, to_char(at, 'YYYY-MM-DD HH24:MI:SS'))
  FROM outbox WHERE at < now() - p_news_limit
$$;

-- Settled hands with their records, to be computed again. Read with a cursor.
CREATE FUNCTION ledger.settled_since(p_since timestamptz)
  RETURNS TABLE (hand_id text, player_ids text[], carried bigint[], at timestamptz, balance_before bigint[],
                 chips bigint[], rake bigint[], flee_chips bigint, rating_before bigint[], rating bigint[],
                 record bytea)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = ledger, pg_catalog, pg_temp AS $$
  SELECT h.hand_id, h.player_ids, h.carried, s.at, s.balance_before, s.chips, s.rake, s.flee_chips, s.rating_before,
         s.rating, s.record
  FROM settlement s JOIN hand h ON h.hand_id = s.hand_id WHERE s.at >= p_since AND NOT s.voided ORDER BY s.at
$$;

REVOKE EXECUTE ON FUNCTION ledger.totals, ledger.faults_of_accounts, ledger.faults_of_transfers,
  ledger.faults_of_hands, ledger.settled_since FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ledger.totals, ledger.faults_of_accounts, ledger.faults_of_transfers,
  ledger.faults_of_hands, ledger.settled_since TO ddz_ledger;
