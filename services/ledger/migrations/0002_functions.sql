-- All that the service may do. Each function runs as the owner; a batch of requests costs one call, whatever its size.
-- Within a transaction: lock_players, read_*, then the writes.

-- The players that exist, locked, as columns: an array of each is a tenth of the cost of a row for each. The lock is one
-- sorted statement, so that no two transactions wait for each other; a row that it had to wait for is read again.
CREATE FUNCTION ledger.lock_players(p_player_ids text[],
    OUT player_ids text[], OUT accounts bigint[], OUT chips bigint[], OUT ratings bigint[], OUT at_ms bigint)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = ledger, pg_catalog, pg_temp AS $$
BEGIN
  WITH locked AS MATERIALIZED (
    SELECT a.player_id, a.account_id, a.chips, a.rating FROM account a WHERE a.player_id = ANY (p_player_ids)
    ORDER BY a.account_id FOR NO KEY UPDATE
  )
  SELECT array_agg(l.player_id), array_agg(l.account_id), array_agg(l.chips), array_agg(l.rating),
         floor(extract(epoch FROM now()) * 1000)
  INTO player_ids, accounts, chips, ratings, at_ms FROM locked l;
END $$;

-- Makes the accounts that are missing. Run by itself: an insert can wait for another one, and must hold no lock then.
CREATE FUNCTION ledger.add_players(p_player_ids text[]) RETURNS void
  LANGUAGE sql SECURITY DEFINER SET search_path = ledger, pg_catalog, pg_temp AS $$
  INSERT INTO account (kind, player_id, chips, chips_seq, rating, rating_seq)
  SELECT 'player', player_id, 0, 0, 0, 0 FROM unnest(p_player_ids) AS player_id ORDER BY player_id
  ON CONFLICT DO NOTHING
$$;

-- Who of them sits in an open hand. Asked after the lock: a statement sees what was committed before it began.
CREATE FUNCTION ledger.read_seats(p_accounts bigint[]) RETURNS TABLE (account_id bigint, hand_id text)
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = ledger, pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY SELECT s.account_id, s.hand_id FROM open_seat s WHERE s.account_id = ANY (p_accounts);
END $$;

-- Hands as they are, and how they ended if they have; `at` is null while a hand is open.
CREATE FUNCTION ledger.read_hands(p_hand_ids text[])
  RETURNS TABLE (hand_id text, table_id text, player_ids text[], carried bigint[], minimum bigint, at timestamptz,
                 voided boolean, record bytea, balance_before bigint[], chips bigint[], rake bigint[],
                 flee_chips bigint, rating_before bigint[], rating bigint[])
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = ledger, pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY
  SELECT h.hand_id, h.table_id, h.player_ids, h.carried, h.minimum, s.at,
         s.voided, s.record, s.balance_before, s.chips, s.rake, s.flee_chips, s.rating_before, s.rating
  FROM hand h LEFT JOIN settlement s ON s.hand_id = h.hand_id
  WHERE h.hand_id = ANY (p_hand_ids);
END $$;

CREATE FUNCTION ledger.read_given(p_keys text[])
  RETURNS TABLE (key text, player_id text, kind text, chips bigint, chips_after bigint, rating_after bigint,
                 relief_day date, relief_number int)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = ledger, pg_catalog, pg_temp AS $$
  SELECT key, player_id, kind::text, chips, chips_after, rating_after, relief_day, relief_number
  FROM granted WHERE key = ANY (p_keys)
$$;

CREATE FUNCTION ledger.read_claimed(p_player_id text[], p_day date[])
  RETURNS TABLE (player_id text, day date, claimed int)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = ledger, pg_catalog, pg_temp AS $$
  SELECT g.player_id, g.relief_day, max(g.relief_number)
  FROM unnest(p_player_id, p_day) AS claim (player_id, day)
  JOIN granted g ON g.player_id = claim.player_id AND g.relief_day = claim.day
  GROUP BY g.player_id, g.relief_day
$$;

CREATE FUNCTION ledger.read_reversed(p_hand_ids text[])
  RETURNS TABLE (hand_id text, player_ids text[], operator text, reason text, chips bigint[], rating bigint[],
                 chips_after bigint[], rating_after bigint[], shortage_chips bigint, shortage_rating bigint)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = ledger, pg_catalog, pg_temp AS $$
  SELECT r.hand_id, h.player_ids, r.operator, r.reason, r.chips, r.rating, r.chips_after, r.rating_after,
         r.shortage_chips, r.shortage_rating
  FROM reversal r JOIN hand h ON h.hand_id = r.hand_id WHERE r.hand_id = ANY (p_hand_ids)
$$;

-- Writes ---------------------------------------------------------------------------------------------------------------

-- Moves chips and rating on players' accounts (`p_account`, once each) and on system accounts (`p_leg_account`). A
-- player's balances must be those that the rules were computed from. Not callable by the service.
CREATE FUNCTION ledger.post(
    p_key text[], p_account bigint[], p_kind ledger.transfer_kind[], p_chips bigint[], p_rake bigint[],
    p_rating bigint[], p_chips_before bigint[], p_rating_before bigint[],
    p_leg_key text[], p_leg_account bigint[], p_leg_unit ledger.unit[], p_leg_kind ledger.transfer_kind[],
    p_leg_amount bigint[]) RETURNS void
  LANGUAGE plpgsql SET search_path = ledger, pg_catalog, pg_temp AS $$
DECLARE
  posted bigint;
  due bigint;
BEGIN
  WITH moved AS (
    UPDATE account a
    SET chips = a.chips + m.chips, chips_seq = a.chips_seq + (m.chips <> 0 OR m.rake <> 0)::int,
        rating = a.rating + m.rating, rating_seq = a.rating_seq + (m.rating <> 0)::int
    FROM unnest(p_key, p_account, p_kind, p_chips, p_rake, p_rating, p_chips_before, p_rating_before)
      AS m (key, account_id, kind, chips, rake, rating, chips_before, rating_before)
    WHERE a.account_id = m.account_id AND a.chips = m.chips_before AND a.rating = m.rating_before
    RETURNING m.key, a.account_id, m.kind, m.chips, m.rake, a.chips AS chips_after, a.chips_seq,
              m.rating, a.rating AS rating_after, a.rating_seq
  )
  INSERT INTO transfer (account_id, seq, amount, balance_after, rake, at, unit, kind, key)
  SELECT account_id, chips_seq, chips, chips_after, rake, now(), 'chips'::unit, kind, key
  FROM moved WHERE chips <> 0 OR rake <> 0
  UNION ALL
  SELECT account_id, rating_seq, rating, rating_after, 0, now(), 'rating', kind, key FROM moved WHERE rating <> 0
  UNION ALL
  SELECT account_id, nextval('system_seq'), amount, NULL, 0, now(), unit, kind, key
  FROM unnest(p_leg_key, p_leg_account, p_leg_unit, p_leg_kind, p_leg_amount)
    AS leg (key, account_id, unit, kind, amount);
  GET DIAGNOSTICS posted = ROW_COUNT;
  SELECT count(*) FILTER (WHERE chips <> 0 OR rake <> 0) + count(*) FILTER (WHERE rating <> 0)
         + cardinality(p_leg_account)
  INTO due FROM unnest(p_chips, p_rake, p_rating) AS m (chips, rake, rating);
  IF posted <> due THEN
    RAISE EXCEPTION 'a balance is not the one that was read' USING ERRCODE = 'serialization_failure';
  END IF;
END $$;

CREATE FUNCTION ledger.tell(p_subject text, p_key text[], p_payload bytea[]) RETURNS void
  LANGUAGE sql SET search_path = ledger, pg_catalog, pg_temp AS $$
  INSERT INTO outbox (subject, key, payload)
  SELECT p_subject, key, payload FROM unnest(p_key, p_payload) AS news (key, payload)
$$;

-- Arrays of players, accounts and balances hold three for each hand, by seat.
CREATE FUNCTION ledger.open_hands(p_hand_id text[], p_table_id text[], p_minimum bigint[],
                                  p_player_id text[], p_account bigint[], p_carried bigint[]) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = ledger, pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO hand (hand_id, table_id, player_ids, carried, minimum, opened_at)
  SELECT hand_id, table_id, p_player_id[3 * n - 2 : 3 * n], p_carried[3 * n - 2 : 3 * n], minimum, now()
  FROM unnest(p_hand_id, p_table_id, p_minimum) WITH ORDINALITY AS opened (hand_id, table_id, minimum, n);
  INSERT INTO open_seat (account_id, hand_id)
  SELECT account_id, p_hand_id[(n + 2) / 3] FROM unnest(p_account) WITH ORDINALITY AS seat (account_id, n);
END $$;

-- Frees the seats of hands that end. Not callable by the service.
CREATE FUNCTION ledger.close_seats(p_hand_id text[], p_account bigint[]) RETURNS void
  LANGUAGE plpgsql SET search_path = ledger, pg_catalog, pg_temp AS $$
DECLARE closed bigint;
BEGIN
  DELETE FROM open_seat s USING unnest(p_account) WITH ORDINALITY AS seat (account_id, n)
  WHERE s.account_id = seat.account_id AND s.hand_id = p_hand_id[(n + 2) / 3];
  GET DIAGNOSTICS closed = ROW_COUNT;
  IF closed <> cardinality(p_account) THEN
    RAISE EXCEPTION 'a hand is not open' USING ERRCODE = 'serialization_failure';
  END IF;
END $$;

-- `p_leg_hand` is the number (from 1) of the hand that a system account's leg belongs to.
CREATE FUNCTION ledger.settle_hands(
    p_hand_id text[], p_record bytea[], p_news bytea[], p_account bigint[], p_kind ledger.transfer_kind[],
    p_balance_before bigint[], p_chips bigint[], p_rake bigint[], p_flee_chips bigint[],
    p_rating_before bigint[], p_rating bigint[],
    p_leg_hand int[], p_leg_account bigint[], p_leg_unit ledger.unit[], p_leg_kind ledger.transfer_kind[],
    p_leg_amount bigint[]) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = ledger, pg_catalog, pg_temp AS $$
BEGIN
  PERFORM close_seats(p_hand_id, p_account);
  INSERT INTO settlement (hand_id, at, voided, balance_before, chips, rake, flee_chips, rating_before, rating, record)
  SELECT hand_id, now(), false, p_balance_before[3 * n - 2 : 3 * n], p_chips[3 * n - 2 : 3 * n],
         p_rake[3 * n - 2 : 3 * n], flee_chips, p_rating_before[3 * n - 2 : 3 * n], p_rating[3 * n - 2 : 3 * n], record
  FROM unnest(p_hand_id, p_flee_chips, p_record) WITH ORDINALITY AS settled (hand_id, flee_chips, record, n);
  PERFORM post(ARRAY(SELECT p_hand_id[(n + 2) / 3] FROM generate_series(1, 3 * cardinality(p_hand_id)) AS n),
               p_account, p_kind, p_chips, p_rake, p_rating, p_balance_before, p_rating_before,
               ARRAY(SELECT p_hand_id[n] FROM unnest(p_leg_hand) AS n), p_leg_account, p_leg_unit, p_leg_kind,
               p_leg_amount);
  PERFORM tell('ddz.hand.settled', p_hand_id, p_news);
END $$;

CREATE FUNCTION ledger.void_hands(p_hand_id text[], p_reason text[], p_account bigint[],
                                  p_balance_before bigint[], p_rating_before bigint[]) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = ledger, pg_catalog, pg_temp AS $$
BEGIN
  PERFORM close_seats(p_hand_id, p_account);
  INSERT INTO settlement (hand_id, at, voided, balance_before, chips, rake, flee_chips, rating_before, rating,
                          void_reason)
  SELECT hand_id, now(), true, p_balance_before[3 * n - 2 : 3 * n], '{0,0,0}', '{0,0,0}', 0,
         p_rating_before[3 * n - 2 : 3 * n], '{0,0,0}', reason
  FROM unnest(p_hand_id, p_reason) WITH ORDINALITY AS voided (hand_id, reason, n);
END $$;

CREATE FUNCTION ledger.grant_chips(
    p_key text[], p_player_id text[], p_account bigint[], p_kind ledger.transfer_kind[], p_chips bigint[],
    p_chips_after bigint[], p_rating_after bigint[], p_relief_day date[], p_relief_number int[], p_news bytea[])
  RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = ledger, pg_catalog, pg_temp AS $$
DECLARE
  issuance CONSTANT bigint := 3;
  n CONSTANT int := cardinality(p_key);
  zeros CONSTANT bigint[] := array_fill(0::bigint, ARRAY[n]);
BEGIN
  INSERT INTO granted (key, player_id, kind, chips, chips_after, rating_after, at, relief_day, relief_number)
  SELECT key, player_id, kind, chips, chips_after, rating_after, now(), relief_day, relief_number
  FROM unnest(p_key, p_player_id, p_kind, p_chips, p_chips_after, p_rating_after, p_relief_day, p_relief_number)
    AS given (key, player_id, kind, chips, chips_after, rating_after, relief_day, relief_number);
  PERFORM post(
    p_key, p_account, p_kind, p_chips, zeros, zeros,
    ARRAY(SELECT after - chips FROM unnest(p_chips_after, p_chips) AS given (after, chips)), p_rating_after,
    p_key, array_fill(issuance, ARRAY[n]), array_fill('chips'::unit, ARRAY[n]), p_kind,
    ARRAY(SELECT -chips FROM unnest(p_chips) AS chips));
  PERFORM tell('ddz.account.changed', p_key, p_news);
END $$;

CREATE FUNCTION ledger.reverse_hand(
    p_hand_id text, p_key text, p_operator text, p_reason text, p_account bigint[], p_chips bigint[], p_rating bigint[],
    p_chips_after bigint[], p_rating_after bigint[], p_shortage_chips bigint, p_shortage_rating bigint, p_news bytea,
    p_leg_account bigint[], p_leg_unit ledger.unit[], p_leg_amount bigint[]) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = ledger, pg_catalog, pg_temp AS $$
DECLARE
  seats CONSTANT int[] := ARRAY[3];
  legs CONSTANT int[] := ARRAY[cardinality(p_leg_account)];
BEGIN
  INSERT INTO reversal (hand_id, operator, reason, chips, rating, chips_after, rating_after, shortage_chips,
                        shortage_rating, at)
  VALUES (p_hand_id, p_operator, p_reason, p_chips, p_rating, p_chips_after, p_rating_after, p_shortage_chips,
          p_shortage_rating, now());
  PERFORM post(
    array_fill(p_key, seats), p_account, array_fill('reverse'::transfer_kind, seats), p_chips,
    array_fill(0::bigint, seats), p_rating,
    ARRAY(SELECT after - moved FROM unnest(p_chips_after, p_chips) AS seat (after, moved)),
    ARRAY(SELECT after - moved FROM unnest(p_rating_after, p_rating) AS seat (after, moved)),
    array_fill(p_key, legs), p_leg_account, p_leg_unit, array_fill('reverse'::transfer_kind, legs), p_leg_amount);
  PERFORM tell('ddz.account.changed', ARRAY[p_key], ARRAY[p_news]);
END $$;

-- News -----------------------------------------------------------------------------------------------------------------

CREATE FUNCTION ledger.oldest_news(p_limit int)
  RETURNS TABLE (outbox_id bigint, subject text, key text, payload bytea)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = ledger, pg_catalog, pg_temp AS $$
  SELECT outbox_id, subject, key, payload FROM outbox ORDER BY outbox_id LIMIT p_limit
$$;

CREATE FUNCTION ledger.forget_news(p_outbox_ids bigint[]) RETURNS void
  LANGUAGE sql SECURITY DEFINER SET search_path = ledger, pg_catalog, pg_temp AS $$
  DELETE FROM outbox WHERE outbox_id = ANY (p_outbox_ids)
$$;

-- Reads ----------------------------------------------------------------------------------------------------------------

CREATE FUNCTION ledger.balances(p_player_ids text[])
  RETURNS TABLE (player_id text, chips bigint, rating bigint, hand_id text)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = ledger, pg_catalog, pg_temp AS $$
  SELECT a.player_id, a.chips, a.rating, s.hand_id
  FROM account a LEFT JOIN open_seat s ON s.account_id = a.account_id WHERE a.player_id = ANY (p_player_ids)
$$;

-- The newest transfers of one account with a seq below `p_below`.
CREATE FUNCTION ledger.statement(p_player_id text, p_unit text, p_below bigint, p_limit int)
  RETURNS TABLE (account_id bigint, seq bigint, amount bigint, balance_after bigint, rake bigint, at timestamptz,
                 unit text, kind text, key text)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = ledger, pg_catalog, pg_temp AS $$
  SELECT t.account_id, t.seq, t.amount, t.balance_after, t.rake, t.at, t.unit::text, t.kind::text, t.key
  FROM account a JOIN transfer t ON t.account_id = a.account_id
  WHERE a.player_id = p_player_id AND t.unit = p_unit::unit AND t.seq < p_below
  ORDER BY t.seq DESC LIMIT p_limit
$$;

CREATE FUNCTION ledger.leaders(p_unit text, p_limit int)
  RETURNS TABLE (player_id text, chips bigint, rating bigint)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = ledger, pg_catalog, pg_temp AS $$
  SELECT player_id, chips, rating FROM account WHERE kind = 'player'
  ORDER BY CASE p_unit WHEN 'chips' THEN chips ELSE rating END DESC, player_id LIMIT p_limit
$$;

CREATE FUNCTION ledger.settled_hand(p_hand_id text)
  RETURNS TABLE (hand_id text, player_ids text[], carried bigint[], at timestamptz, balance_before bigint[],
                 chips bigint[], rake bigint[], flee_chips bigint, rating_before bigint[], rating bigint[],
                 record bytea)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = ledger, pg_catalog, pg_temp AS $$
  SELECT h.hand_id, h.player_ids, h.carried, s.at, s.balance_before, s.chips, s.rake, s.flee_chips, s.rating_before,
         s.rating, s.record
  FROM hand h JOIN settlement s ON s.hand_id = h.hand_id WHERE h.hand_id = p_hand_id AND NOT s.voided
$$;

-- Newest first.
CREATE FUNCTION ledger.settled_hands(p_since timestamptz, p_limit int)
  RETURNS TABLE (hand_id text, player_ids text[], carried bigint[], at timestamptz, balance_before bigint[],
                 chips bigint[], rake bigint[], flee_chips bigint, rating_before bigint[], rating bigint[],
                 record bytea)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = ledger, pg_catalog, pg_temp AS $$
  SELECT h.hand_id, h.player_ids, h.carried, s.at, s.balance_before, s.chips, s.rake, s.flee_chips, s.rating_before,
         s.rating, s.record
  FROM settlement s JOIN hand h ON h.hand_id = s.hand_id
  WHERE s.at >= p_since AND NOT s.voided
  ORDER BY s.at DESC, s.hand_id LIMIT p_limit
$$;

CREATE FUNCTION ledger.open_hands_older(p_age interval, p_limit int)
  RETURNS TABLE (hand_id text, table_id text, player_ids text[], carried bigint[], opened_at timestamptz)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = ledger, pg_catalog, pg_temp AS $$
  SELECT h.hand_id, h.table_id, h.player_ids, h.carried, h.opened_at
  FROM (SELECT DISTINCT hand_id FROM open_seat) AS seated JOIN hand h ON h.hand_id = seated.hand_id
  WHERE h.opened_at <= now() - p_age
  ORDER BY h.opened_at, h.hand_id LIMIT p_limit
$$;

REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA ledger FROM PUBLIC; -- who has them by default
GRANT EXECUTE ON FUNCTION
  ledger.applied_migrations,
  ledger.lock_players, ledger.add_players, ledger.read_seats, ledger.read_hands, ledger.read_given,
  ledger.read_claimed, ledger.read_reversed,
  ledger.open_hands, ledger.settle_hands, ledger.void_hands, ledger.grant_chips, ledger.reverse_hand,
  ledger.oldest_news, ledger.forget_news,
  ledger.balances, ledger.statement, ledger.leaders, ledger.settled_hand, ledger.settled_hands,
  ledger.open_hands_older
TO ddz_ledger;
