-- no transaction
-- Accounts are written while it is built. One that is invalid goes first, for it failed here; then that of 0004.
DROP INDEX CONCURRENTLY IF EXISTS lobby.account_sanctioned_at;

CREATE INDEX CONCURRENTLY account_sanctioned_at ON lobby.account (sanctioned_at) WHERE sanctioned_at IS NOT NULL;

DROP INDEX CONCURRENTLY IF EXISTS lobby.account_sanctioned;
