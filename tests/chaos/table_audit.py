"""What must hold of all tables after the chaos, read from their logs and from the ledger."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hiredis

from ddz.common.v1 import hand_pb2
from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from ddz.table.v1 import events_pb2
from deploy.local.process import Process
from services.table import log
from services.table.table import Table
from tests.chaos.acknowledged import ALWAYS_LOGGED, Acknowledged
from tests.chaos.standstill import Step, step_of


@dataclass
class Logs:
    """All logs, read once: the commands of each entry, the hands, when things happened, what has closed."""

    wrong: list[str] = field(default_factory=list)
    commands: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    ended_at: dict[tuple[str, str, str], int] = field(default_factory=dict)
    finished: dict[str, hand_pb2.Outcome] = field(default_factory=dict)
    settled: Counter[str] = field(default_factory=Counter)
    closed: set[str] = field(default_factory=set)
    left: set[tuple[str, str]] = field(default_factory=set)  # a table, and who has lost or given up his seat there
    voided: int = 0
    events: int = 0
    steps: dict[str, list[Step]] = field(default_factory=lambda: defaultdict(list))


def appended(folder: Path) -> dict[str, list[bytes]]:
    """All that was ever appended to the logs of tables, in order, from Redis's append-only files below `folder`:
    also what was cut off since.
    """
    found: dict[str, list[bytes]] = defaultdict(list)
    for file in sorted(folder.rglob("*.incr.aof"), key=lambda path: int(path.name.split(".")[-3])):
        reader = hiredis.Reader()
        reader.feed(file.read_bytes())
        while (command := reader.gets()) is not False:
            if command[0].upper() == b"XADD" and command[-2] == b"e":
                found[command[1].decode().split(":")[2]].append(command[-1])
    return found


def read_logs(entries: Mapping[str, list[bytes]], table_ids: Iterable[str]) -> Logs:
    """Folds every log; a gap or an event that cannot follow is told."""
    logs = Logs()
    for table_id in table_ids:
        table: Table | None = None
        seq = 0
        hand_id = ""
        steps = logs.steps[table_id]
        for data in entries[table_id]:
            entry = log.decode(table_id, data)
            if entry.checkpoint is not None:
                assert entry.checkpoint.seq == seq, "a checkpoint stands for what was before it"
                continue
            player_id, command_id = entry.key
            if command_id:
                key = (table_id, player_id, command_id)
                logs.commands[key] += 1
                logs.ended_at[key] = entry.stamped[-1].seq
            for one, message in zip(entry.stamped, entry.messages, strict=True):
                seq += 1
                logs.events += 1
                if one.seq != seq:
                    logs.wrong.append(f"{table_id}: event {one.seq} stands where {seq} should")
                table = log.fold(table_id, table, one)
                if message.HasField("seat_left"):
                    logs.left.add((table_id, message.seat_left.player_id))
                steps.append(step_of(message, steps[-1] if steps else None))
                hand_id = message.hand_opening.hand_id or hand_id
                _take_end(logs, table_id, hand_id, message)
    return logs


def _take_end(logs: Logs, table_id: str, hand_id: str, message: events_pb2.Event) -> None:
    if message.HasField("hand_won"):
        logs.finished[hand_id] = message.hand_won.outcome
    elif message.HasField("hand_fled"):
        logs.finished[hand_id] = message.hand_fled.outcome
    elif message.HasField("hand_settled"):
        logs.settled[message.hand_settled.hand_id] += 1
    elif message.HasField("hand_voided"):
        logs.voided += 1
    elif message.HasField("closed"):
        logs.closed.add(table_id)


def check_acknowledged(logs: Logs, acknowledged: list[Acknowledged]) -> list[str]:
    """Every acknowledged command stands in its log exactly once, and ends where it was said to end.

    One that may find nothing to change is acknowledged without an entry then; it has nothing to lose.
    """
    wrong = [f"{key} stands {count} times in its log" for key, count in logs.commands.items() if count > 1]
    for one in acknowledged:
        key = (one.table_id, one.player_id, one.command_id)
        if key not in logs.ended_at:
            if one.action in ALWAYS_LOGGED:
                wrong.append(f"{key}, a {one.action}, was acknowledged at {one.seq} and is not in its log")
        elif logs.ended_at[key] != one.seq:
            wrong.append(f"{key} was acknowledged at {one.seq} and stands at {logs.ended_at[key]}")
    return wrong


async def check_ledger(
    logs: Logs,
    public: ledger_pb2_grpc.LedgerServiceAsyncStub,
    internal: ledger_pb2_grpc.LedgerInternalServiceAsyncStub,
) -> tuple[list[str], dict[str, Any]]:
    """Every finished hand is settled once, as it ended; the ledger knows of no other and adds up."""
    wrong = [f"hand {hand_id} was settled {count} times" for hand_id, count in logs.settled.items() if count != 1]
    wrong += [f"hand {hand_id} ended and was not settled" for hand_id in logs.finished if hand_id not in logs.settled]
    for hand_id, outcome in logs.finished.items():
        answer = await public.GetHand(ledger_pb2.GetHandRequest(hand_id=hand_id))
        if answer.record.outcome != outcome:
            wrong.append(f"hand {hand_id} ended otherwise than it was settled")
    audit = await internal.Audit(ledger_pb2.AuditRequest(), timeout=300)
    if audit.hands_settled != len(logs.settled):
        wrong.append(f"the ledger has settled {audit.hands_settled} hands, the tables {len(logs.settled)}")
    wrong += list(audit.faults)
    for name in ("hands_open", "chips_sum", "rating_sum", "negative_balances"):
        if getattr(audit, name):
            wrong.append(f"the ledger's {name} is {getattr(audit, name)}")
    return wrong, {"hands_settled": audit.hands_settled, "hands_voided": audit.hands_voided}


def faults_of_our_own(processes: Iterable[Process]) -> list[str]:
    """What services have logged as errors. A program that was started again writes on in the log of the one before,
    so each name stands for all of its lives.
    """
    return [f"{process.name}: {line}" for process in processes for line in process.faults()]


def check_closed(logs: Logs, table_ids: Iterable[str]) -> list[str]:
    """Once everybody has gone every table closes."""
    return [f"{table_id} has never closed" for table_id in table_ids if table_id not in logs.closed]
