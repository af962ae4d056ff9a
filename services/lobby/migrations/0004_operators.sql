-- Operators, what they did, and what holds until they take it back. The service's role can make nobody an operator, and
-- change no act: it reads, and calls the functions below.
--
-- It built the index of 0005 too, in this transaction, in which nobody could write an account until it was there:
-- formerly d91a26f19409aff99733e2280c2f41f7d0861341f2400fad7d51ebe68c0d3e8c

ALTER TABLE lobby.account
  ADD COLUMN muted_until_ms bigint NOT NULL DEFAULT 0, -- milliseconds since the epoch
  ADD COLUMN banned_until_ms bigint NOT NULL DEFAULT 0,
  ADD COLUMN sanctioned_at timestamptz; -- when one of the two was last set

-- Filled by `python -m services.lobby appoint`, as the owner.
CREATE TABLE lobby.operator (
  number bigint PRIMARY KEY REFERENCES lobby.account,
  appointed_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE lobby.maintenance (
  one boolean PRIMARY KEY DEFAULT true CHECK (one), -- a row while the system is closed
  message text NOT NULL
);

CREATE TABLE lobby.act (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  act_id text NOT NULL UNIQUE, -- chosen by the caller
  operator_id text NOT NULL, -- his player id
  act text NOT NULL,
  arguments jsonb NOT NULL,
  reason text NOT NULL,
  at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- An act is tried again until it has a final outcome, which is the answer to every repeat.
CREATE TABLE lobby.outcome (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  act_id text NOT NULL REFERENCES lobby.act (act_id),
  final boolean NOT NULL,
  outcome text NOT NULL, -- done, or why not
  detail text NOT NULL,
  answer bytea NOT NULL, -- the response, or the refusal, as it was sent
  at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE UNIQUE INDEX outcome_final ON lobby.outcome (act_id) WHERE final;
CREATE INDEX outcome_of_act ON lobby.outcome (act_id, number);

CREATE FUNCTION lobby.refuse_change() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON lobby.act
  FOR EACH STATEMENT EXECUTE FUNCTION lobby.refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON lobby.outcome
  FOR EACH STATEMENT EXECUTE FUNCTION lobby.refuse_change();

-- Writes an act down, unless its id is known: then what is known of it.
CREATE FUNCTION lobby.begin_act(the_id text, the_operator text, the_act text, the_arguments jsonb, the_reason text)
  RETURNS TABLE (same boolean, outcome text, answer bytea)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO lobby.act (act_id, operator_id, act, arguments, reason)
    VALUES (the_id, the_operator, the_act, the_arguments, the_reason) ON CONFLICT (act_id) DO NOTHING;
  RETURN QUERY
    SELECT (a.operator_id, a.act, a.arguments, a.reason) = (the_operator, the_act, the_arguments, the_reason),
      o.outcome, o.answer
    FROM lobby.act a LEFT JOIN lobby.outcome o ON o.act_id = a.act_id AND o.final WHERE a.act_id = the_id;
END $$;

-- Writes down what came of an act; answers the final outcome, which is another one's when that came first.
CREATE FUNCTION lobby.end_act(the_id text, is_final boolean, the_outcome text, the_detail text, the_answer bytea)
  RETURNS TABLE (outcome text, answer bytea)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO lobby.outcome (act_id, final, outcome, detail, answer)
    VALUES (the_id, is_final, the_outcome, the_detail, the_answer) ON CONFLICT (act_id) WHERE final DO NOTHING;
  RETURN QUERY SELECT o.outcome, o.answer FROM lobby.outcome o WHERE o.act_id = the_id AND o.final;
END $$;

CREATE FUNCTION lobby.list_acts(before bigint, how_many int)
  RETURNS TABLE (number bigint, act_id text, operator_id text, act text, arguments jsonb, reason text, at_ms bigint,
    outcome text, detail text)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT a.number, a.act_id, a.operator_id, a.act, a.arguments, a.reason, (extract(epoch FROM a.at) * 1000)::bigint,
    coalesce(o.outcome, ''), coalesce(o.detail, '')
  FROM lobby.act a LEFT JOIN LATERAL (
    SELECT outcome, detail FROM lobby.outcome o WHERE o.act_id = a.act_id ORDER BY final DESC, number DESC LIMIT 1) o ON true
  WHERE a.number < before ORDER BY a.number DESC LIMIT how_many
$$;

REVOKE ALL ON FUNCTION lobby.begin_act, lobby.end_act, lobby.list_acts FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lobby.begin_act, lobby.end_act, lobby.list_acts TO ddz_lobby;
GRANT SELECT ON lobby.operator TO ddz_lobby;
GRANT SELECT, INSERT, UPDATE, DELETE ON lobby.maintenance TO ddz_lobby;
