-- Which trace news are of (W3C traceparent), by their key; of those alone whose request was traced.
CREATE TABLE ledger.news_trace (
  key text PRIMARY KEY,
  traceparent text NOT NULL
);

-- Called within the transaction that tells the news.
CREATE FUNCTION ledger.trace_news(p_key text[], p_traceparent text[]) RETURNS void
  LANGUAGE sql SECURITY DEFINER SET search_path = ledger, pg_catalog, pg_temp AS $$
  INSERT INTO news_trace (key, traceparent)
  SELECT key, traceparent FROM unnest(p_key, p_traceparent) AS traced (key, traceparent) ON CONFLICT DO NOTHING
$$;

DROP FUNCTION ledger.oldest_news(int);
CREATE FUNCTION ledger.oldest_news(p_limit int)
  RETURNS TABLE (outbox_id bigint, subject text, key text, payload bytea, traceparent text)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = ledger, pg_catalog, pg_temp AS $$
  SELECT o.outbox_id, o.subject, o.key, o.payload, t.traceparent
  FROM outbox o LEFT JOIN news_trace t ON t.key = o.key ORDER BY o.outbox_id LIMIT p_limit
$$;

CREATE OR REPLACE FUNCTION ledger.forget_news(p_outbox_ids bigint[]) RETURNS void
  LANGUAGE sql SECURITY DEFINER SET search_path = ledger, pg_catalog, pg_temp AS $$
  WITH told AS (DELETE FROM outbox WHERE outbox_id = ANY (p_outbox_ids) RETURNING key)
  DELETE FROM news_trace t USING told WHERE t.key = told.key
$$;

REVOKE EXECUTE ON FUNCTION ledger.trace_news, ledger.oldest_news FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ledger.trace_news, ledger.oldest_news TO ddz_ledger;
