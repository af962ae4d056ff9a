-- Accounts and sessions. Neither a device key, a password nor a refresh token is kept: only what each can be checked by.

GRANT USAGE ON SCHEMA lobby TO ddz_lobby;
GRANT EXECUTE ON FUNCTION lobby.applied_migrations() TO ddz_lobby;

CREATE TABLE lobby.account (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- player_id = 'p' and the number
  device_hash bytea UNIQUE, -- SHA-256 of a guest's device key, which is random
  login_name text UNIQUE, -- normalised
  password_hash text, -- argon2id, with its parameters
  display_name text NOT NULL,
  avatar_id int NOT NULL DEFAULT 0,
  bot boolean NOT NULL DEFAULT false,
  granted boolean NOT NULL DEFAULT false, -- the sign-up chips have been given
  created_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT one_way_in CHECK (num_nonnulls(device_hash, login_name) = 1),
  CONSTRAINT name_and_password CHECK ((login_name IS NULL) = (password_hash IS NULL))
);

-- A refresh token: used once. All tokens that one log-in led to are a family; a token that comes twice ends its family.
CREATE TABLE lobby.session (
  token_hash bytea PRIMARY KEY,
  number bigint NOT NULL REFERENCES lobby.account ON DELETE CASCADE,
  family uuid NOT NULL,
  expires_at timestamptz NOT NULL,
  used_at timestamptz
);
CREATE INDEX session_account ON lobby.session (number);
CREATE INDEX session_family ON lobby.session (family);

GRANT SELECT, INSERT, UPDATE, DELETE ON lobby.account, lobby.session TO ddz_lobby;
GRANT USAGE ON SEQUENCE lobby.account_number_seq TO ddz_lobby;
