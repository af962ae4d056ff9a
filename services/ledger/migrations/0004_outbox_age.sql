-- How long the oldest news have waited, in seconds; 0 when none wait. The oldest id is the oldest, but for the time
-- that transactions take.
CREATE FUNCTION ledger.outbox_age_s() RETURNS double precision
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = ledger, pg_catalog, pg_temp AS $$
  SELECT coalesce((SELECT greatest(extract(epoch FROM now() - at), 0)::double precision
                   FROM outbox ORDER BY outbox_id LIMIT 1), 0)
$$;

REVOKE EXECUTE ON FUNCTION ledger.outbox_age_s FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ledger.outbox_age_s TO ddz_ledger;
