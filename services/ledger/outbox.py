"""How long news wait in the outbox, told as a metric by every instance, whichever of them relays."""

from __future__ import annotations

import asyncio
from typing import Final

from doudizhu.refusal import Refusal
from servicekit import logs
from services.ledger import counts
from services.ledger.trouble import Reads

log = logs.get("outbox")

_PERIOD_S: Final = 2.0


async def watch(reads: Reads) -> None:
    """Looks for ever; without Postgres the last age stands."""
    while True:
        try:
            ((age_s,),) = await reads.fetch("SELECT ledger.outbox_age_s()")
            counts.OUTBOX_LAG_SECONDS.set(age_s)
        except Refusal as refusal:
            log.info("not looked", extra={"reason": refusal.reason})
        await asyncio.sleep(_PERIOD_S)
