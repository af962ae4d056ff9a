"""The file of rooms changes while people wait."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import yaml
from prometheus_client import REGISTRY

from tests.services.lobby.conftest import refusal_of
from tests.services.matchmaking.conftest import EXPIRED, ROOM, ROOMS_FILE, Open, until
from tests.services.matchmaking.test_tickets import seated


async def test_rooms_change_without_a_restart(opened: Open, tmp_path: Path) -> None:
    file = tmp_path / "rooms.yaml"
    content = yaml.safe_load(ROOMS_FILE.read_text())
    file.write_text(json.dumps(content))
    async with opened(rooms_file=str(file)) as hall:
        player = hall.player()
        ticket = await player.join()
        watching = asyncio.create_task(player.end_of(ticket.ticket_id))
        content["rooms"] = [room for room in content["rooms"] if room["room_id"] != ROOM]
        content["rooms"].append({**content["rooms"][0], "room_id": "new-room"})
        file.write_text(json.dumps(content))
        assert (await watching).state == EXPIRED
        assert (await refusal_of(player.join())).reason == "NOT_FOUND"
        await seated(player, *hall.players(2), room_id="new-room")
        refused = {"result": "refused"}
        before = REGISTRY.get_sample_value("ddz_rooms_reloads_total", refused) or 0

        async def noticed() -> bool:
            return (REGISTRY.get_sample_value("ddz_rooms_reloads_total", refused) or 0) > before

        file.write_text("rooms: 5")
        await until(noticed)
        await hall.player().join("new-room")
