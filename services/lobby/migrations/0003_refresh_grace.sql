-- A refresh whose answer was lost may be repeated for some seconds: the same token then has the same successor. That is
-- made of the token and this salt, so that neither a token nor the database alone tells it.

ALTER TABLE lobby.session
  ADD COLUMN salt bytea,
  ADD COLUMN successor bytea, -- its token_hash
  ADD CONSTRAINT used_up CHECK (num_nonnulls(salt, successor) IN (0, 2));
