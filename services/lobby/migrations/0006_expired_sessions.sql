-- no transaction
-- For what drops sessions that have run out. Sessions are written while it is built; one that is invalid goes first.
DROP INDEX CONCURRENTLY IF EXISTS lobby.session_expires_at;

CREATE INDEX CONCURRENTLY session_expires_at ON lobby.session (expires_at);
