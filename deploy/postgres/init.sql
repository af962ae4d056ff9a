-- The roles and the database. Run by psql as a superuser, as often as one likes; what is inside a schema comes from
-- `python -m services.<name> migrate`, run as ddz_owner. A password is set when its variable is in the environment.

SELECT format('CREATE ROLE %I LOGIN', name)
FROM unnest(ARRAY['ddz_owner', 'ddz_ledger', 'ddz_lobby']) AS name
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name)
\gexec

\getenv owner_password DDZ_OWNER_PASSWORD
\if :{?owner_password}
ALTER ROLE ddz_owner PASSWORD :'owner_password';
\endif
\getenv ledger_password DDZ_LEDGER_PASSWORD
\if :{?ledger_password}
ALTER ROLE ddz_ledger PASSWORD :'ledger_password';
\endif
\getenv lobby_password DDZ_LOBBY_PASSWORD
\if :{?lobby_password}
ALTER ROLE ddz_lobby PASSWORD :'lobby_password';
\endif

SELECT 'CREATE DATABASE ddz OWNER ddz_owner'
WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = 'ddz')
\gexec

REVOKE ALL ON DATABASE ddz FROM PUBLIC;
GRANT CONNECT ON DATABASE ddz TO ddz_ledger, ddz_lobby;
