"""Who calls: the gateway checks the token, strips what clients send, and sets these headers (deploy/envoy)."""

from __future__ import annotations

from typing import Any, Final

from doudizhu.refusal import Refusal
from servicekit.errors import Trouble

PLAYER_HEADER: Final = "x-player-id"


def player_id(context: Any) -> str:
    """The caller's player id; raises Refusal UNAUTHENTICATED when the gateway set none."""
    for key, value in context.invocation_metadata() or ():
        if key == PLAYER_HEADER and value:
            return value if isinstance(value, str) else value.decode()
    raise Refusal(Trouble.UNAUTHENTICATED, "Log in first: the call carries no player.")
