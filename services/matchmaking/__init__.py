"""Matchmaking: one ticket per account, threes made atomically."""
