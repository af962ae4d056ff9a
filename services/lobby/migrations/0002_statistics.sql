-- Statistics of settled hands, fed by ddz.hand.settled. A hand counts once, however often the news comes.

CREATE TABLE lobby.statistics (
  player_id text PRIMARY KEY,
  hands bigint NOT NULL,
  landlord_hands bigint NOT NULL,
  landlord_wins bigint NOT NULL,
  farmer_hands bigint NOT NULL,
  farmer_wins bigint NOT NULL,
  flees bigint NOT NULL,
  greatest_multiplier bigint NOT NULL
) WITH (fillfactor = 70);

-- Kept longer than the stream keeps its news.
CREATE TABLE lobby.counted_hand (
  hand_id text PRIMARY KEY,
  at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX counted_hand_at ON lobby.counted_hand (at);

GRANT SELECT, INSERT, UPDATE ON lobby.statistics TO ddz_lobby;
GRANT SELECT, INSERT, DELETE ON lobby.counted_hand TO ddz_lobby;
