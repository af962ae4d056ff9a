"""The lobby: who you are, which rooms there are, and where a seat is free."""
