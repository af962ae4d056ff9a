"""Who calls: the gateway checks the token, strips what clients send, and sets these headers (deploy/envoy).

The token's claims and the headers they become: sub -> x-player-id, avatar -> x-player-avatar, bot -> x-player-bot,
role -> x-player-role, name -> x-player-name (base64url of UTF-8, as headers are ASCII), exp -> x-player-until.

The gateway looks at a token when a call begins; a stream ends with its token (docs/decisions/0024).
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import time
from collections.abc import AsyncIterator
from typing import Any, Final, TypeVar

from ddz.common.v1 import common_pb2
from doudizhu.refusal import Refusal
from servicekit.errors import Trouble

PLAYER_HEADER: Final = "x-player-id"
NAME_HEADER: Final = "x-player-name"
AVATAR_HEADER: Final = "x-player-avatar"
BOT_HEADER: Final = "x-player-bot"
ROLE_HEADER: Final = "x-player-role"
UNTIL_HEADER: Final = "x-player-until"  # the token's end, in seconds since the epoch
OPERATOR: Final = "operator"  # the role of who may do what is not for players
FORWARDED_HEADER: Final = "x-forwarded-for"

Frame = TypeVar("Frame")


def player_id(context: Any) -> str:
    """The caller's player id; raises Refusal UNAUTHENTICATED when the gateway set none."""
    return _headers(context)[PLAYER_HEADER]


def player(context: Any) -> common_pb2.Player:
    """The caller as others see him; without a name he is called by his id. Raises as `player_id`."""
    headers = _headers(context)
    avatar = headers.get(AVATAR_HEADER, "")
    return common_pb2.Player(
        player_id=headers[PLAYER_HEADER],
        display_name=decode_name(headers.get(NAME_HEADER, "")) or headers[PLAYER_HEADER],
        avatar_id=int(avatar) if avatar.isdecimal() else 0,
        bot=headers.get(BOT_HEADER) == "true",
    )


def operator_id(context: Any) -> str:
    """The caller's player id, if his token says that he is an operator; raises Refusal FORBIDDEN, or as `player_id`."""
    headers = _headers(context)
    if headers.get(ROLE_HEADER) != OPERATOR:
        raise Refusal(Trouble.FORBIDDEN, "This is for operators.")
    return headers[PLAYER_HEADER]


def player_id_or_none(context: Any) -> str:
    """The caller's player id; empty when the gateway set none."""
    return _value(context, PLAYER_HEADER)


def ends_at(context: Any) -> float | None:
    """When the caller's token runs out, by the running loop's clock; None for a call that did not come by the gateway.

    Raises Refusal UNAUTHENTICATED when it has run out: the gateway is lenient with clocks, and lets it in for a minute.
    """
    until = _value(context, UNTIL_HEADER)
    if not until:
        return None
    try:
        left_s = float(until) - time.time()
    except ValueError:
        left_s = 0.0
    if not left_s > 0:
        raise Refusal(Trouble.UNAUTHENTICATED, "Your token has run out: renew it.")
    return asyncio.get_running_loop().time() + left_s


async def while_good(frames: AsyncIterator[Frame], ends_at: float | None) -> AsyncIterator[Frame]:
    """The frames of a stream as they come, until they end or it is `ends_at` by the running loop's clock.

    Whoever made `frames` closes them. The time runs only while the next one is waited for: a stream that is being
    written is never broken off in the middle.
    """
    while True:
        try:
            async with asyncio.timeout_at(ends_at) as limit:
                frame = await anext(frames)
        except StopAsyncIteration:
            return
        except TimeoutError:
            if limit.expired():
                return
            raise
        yield frame


def address(context: Any) -> str:
    """Where the call came from: the last address, which the gateway added itself; empty when it did not come by it.

    Of IPv6 it is the network of 64 bits, which is what one household has.
    """
    last = _value(context, FORWARDED_HEADER).rpartition(",")[2].strip()
    try:
        found = ipaddress.IPv6Address(last)
    except ValueError:
        return last
    mapped = found.ipv4_mapped
    return str(mapped or ipaddress.IPv6Network((found, 64), strict=False))


def _value(context: Any, header: str) -> str:
    for key, value in context.invocation_metadata() or ():
        if key == header:
            return value if isinstance(value, str) else value.decode()
    return ""


def metadata(player: common_pb2.Player) -> list[tuple[str, str | bytes]]:
    """The headers that the gateway sets for a player: for a call on his behalf, and for tests."""
    return [
        (PLAYER_HEADER, player.player_id),
        (NAME_HEADER, encode_name(player.display_name)),
        (AVATAR_HEADER, str(player.avatar_id)),
        (BOT_HEADER, "true" if player.bot else "false"),
    ]


def encode_name(name: str) -> str:
    """A display name as a claim and a header carry it."""
    return base64.urlsafe_b64encode(name.encode()).decode().rstrip("=")


def decode_name(text: str) -> str:
    """The display name of a header; empty when it is none."""
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except ValueError:
        return ""


def _headers(context: Any) -> dict[str, str]:
    """The caller's identity headers."""
    found = {
        key: value if isinstance(value, str) else value.decode()
        for key, value in context.invocation_metadata() or ()
        if key.startswith("x-player-")
    }
    if not found.get(PLAYER_HEADER):
        raise Refusal(Trouble.UNAUTHENTICATED, "Log in first: the call carries no player.")
    return found
