"""The JetStream stream of all news; whoever publishes first makes it."""

from __future__ import annotations

from typing import Final

from nats.js import JetStreamContext
from nats.js.api import StreamConfig
from nats.js.errors import NotFoundError

STREAM: Final = "DDZ"
SUBJECTS: Final = ["ddz.match.made", "ddz.hand.settled", "ddz.account.changed", "ddz.ops.>"]
_KEEP_S: Final = 7 * 24 * 3600


async def ensure(stream: JetStreamContext) -> None:
    """Makes the stream unless it is there."""
    try:
        await stream.stream_info(STREAM)
    except NotFoundError:
        await stream.add_stream(StreamConfig(name=STREAM, subjects=SUBJECTS, max_age=_KEEP_S))
