-- no transaction
-- Accounts are written while it is built. One that 0004 built goes too, and one that is invalid, for it failed here.
DROP INDEX CONCURRENTLY IF EXISTS lobby.account_sanctioned;

CREATE INDEX CONCURRENTLY account_sanctioned ON lobby.account (sanctioned_at) WHERE sanctioned_at IS NOT NULL;
