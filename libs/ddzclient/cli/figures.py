"""What `ddz top` shows: names and texts, computed from two looks at the metrics."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from ddzclient.cli.scrapes import Pair

_FAILED: Final = ("INTERNAL", "UNKNOWN", "UNAVAILABLE", "DEADLINE_EXCEEDED")
_CONNECTIONS: Final = "envoy_http_downstream_cx_active"
_PREFIX: Final = "envoy_http_conn_manager_prefix"

Row = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Section:
    """A box of the screen."""

    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Process:
    """A line of the list of processes, as texts. `well` is False when somebody should look."""

    name: str
    cpu: str
    memory: str
    calls: str
    failed: str
    late: str
    behind: str
    well: bool


def number(value: float) -> str:
    """A count: 12, 1,234; nothing is -."""
    return "-" if math.isnan(value) else f"{value:,.0f}"


def per_second(value: float) -> str:
    """A rate: 0, 0.25/s, 12.3/s, 1,234/s."""
    if value == 0:
        return "0"
    return f"{value:,.0f}/s" if value >= 100 else f"{value:.1f}/s" if value >= 10 else f"{value:.2f}/s"


def duration(seconds: float) -> str:
    """A time: 0.42 ms, 12 ms, 3.4 s; nothing is -."""
    if math.isnan(seconds):
        return "-"
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1000:.0f} ms" if seconds >= 0.01 else f"{seconds * 1000:.2f} ms"


def processes(pair: Pair, expected: tuple[str, ...]) -> tuple[Process, ...]:
    """A line for each process that was asked, in that order."""
    return tuple(_process(name, pair.of(name)) for name in expected)


def _process(name: str, pair: Pair) -> Process:
    if name not in pair.after.processes:
        return Process(name, "-", "-", "-", "-", "-", "does not answer", well=False)
    clients = pair.levels("ddz_client_up", "client", min)
    away = sorted(client for client, up in clients.items() if not up)
    failed = sum(pair.rate("ddz_rpc_seconds_count", code=code) for code in _FAILED)
    memory = pair.level("process_resident_memory_bytes")
    late_s = pair.quantile("ddz_event_loop_lag_seconds", 0.99)
    ours = bool(clients)
    calls = pair.rate("ddz_rpc_seconds_count") if ours else sum(_requests(pair).values())
    return Process(
        name=name,
        cpu=f"{100 * pair.rate('process_cpu_seconds_total'):.0f} %" if ours else "",
        memory=f"{memory / 1e6:,.0f} MB" if ours else "",
        calls=per_second(calls),
        failed=per_second(failed),
        late=duration(late_s) if ours else "",
        behind=f"{', '.join(away)} away" if away else ", ".join(sorted(clients)),
        well=not away and not failed,
    )


def sections(pair: Pair) -> tuple[Section, ...]:
    """The boxes, in the order of a person's way: in at the gateway, through the queue, to a table, to the ledger."""
    return (_edge(pair), _matchmaking(pair), _tables(pair), _hands(pair), _speed(pair), _ledger(pair), _chips(pair))


def _edge(pair: Pair) -> Section:
    classes = _requests(pair)
    return Section(
        "Edge",
        (
            ("in the lobby", number(pair.level("ddz_lobby_online", max))),
            ("connections", number(pair.levels(_CONNECTIONS, _PREFIX).get("door", 0.0))),
            ("requests", per_second(sum(classes.values()))),
            ("of them 4xx, 5xx", f"{per_second(classes.get('4', 0.0))}, {per_second(classes.get('5', 0.0))}"),
            ("too many calls", per_second(pair.rate("envoy_http_local_rate_limit_enforced"))),
            ("tokens refused", per_second(pair.rate("envoy_http_jwt_authn_denied"))),
            ("log-ins, new", f"{per_second(pair.rate('ddz_logins_total'))}, {_new(pair)}"),
        ),
    )


def _requests(pair: Pair) -> dict[str, float]:
    """The gateway's requests a second by the first digit of their answer, 1 to 5."""
    return pair.rates("envoy_http_downstream_rq_xx", "envoy_response_code_class", **{_PREFIX: "door"})


def _new(pair: Pair) -> str:
    return per_second(pair.rate("ddz_logins_total", result="created"))


def _matchmaking(pair: Pair) -> Section:
    waiting = pair.levels("ddz_match_waiting", "room", max)
    claims = pair.rates("ddz_match_claims_total", "result")
    return Section(
        "Matchmaking",
        (
            ("wait", number(sum(waiting.values()))),
            ("join", per_second(pair.rate("ddz_match_joins_total", result="queued"))),
            ("cancel", per_second(pair.rate("ddz_match_cancels_total", result="done"))),
            ("expire", per_second(pair.rate("ddz_match_expiries_total"))),
            ("matches", per_second(pair.rate("ddz_match_made_total"))),
            ("without a table", per_second(sum(claims.values()) - claims.get("matched", 0.0))),
            ("wait, median", duration(pair.quantile("ddz_match_wait_seconds", 0.5))),
            ("wait, p95", duration(pair.quantile("ddz_match_wait_seconds", 0.95))),
        ),
    )


def _tables(pair: Pair) -> Section:
    stages = pair.levels("ddz_tables", "stage")
    by = pair.rates("ddz_table_actions_total", "by")
    return Section(
        "Tables",
        (
            ("with people", number(sum(stages.values()))),
            ("playing", number(stages.get("hand", 0.0))),
            ("settling", number(stages.get("settling", 0.0))),
            ("seats", number(pair.level("ddz_table_seats"))),
            ("observers", number(pair.level("ddz_table_observers"))),
            ("streams", number(sum(_streams(pair).values()))),
            ("actions", per_second(sum(by.values()))),
            ("by clock, trustee", f"{per_second(by.get('clock', 0.0))}, {per_second(by.get('trustee', 0.0))}"),
            ("refusals", per_second(pair.rate("ddz_refusals_total"))),
        ),
    )


def _streams(pair: Pair) -> dict[str, float]:
    found = pair.levels("ddz_streams", "method")
    return {method: value for method, value in found.items() if method.startswith("ddz.table.")}


def _hands(pair: Pair) -> Section:
    results = pair.rates("ddz_table_hands_total", "result")
    books = pair.rates("ddz_table_hands_total", "book")
    multiplier = pair.mean("ddz_table_multiplier")
    return Section(
        "Hands",
        (
            *((book, per_second(books[book])) for book in sorted(books)),
            *((result, per_second(results[result])) for result in sorted(results)),
            ("deals nobody wanted", per_second(pair.rate("ddz_table_redeals_total"))),
            ("multiplier, mean", "-" if math.isnan(multiplier) else f"{multiplier:.1f}"),
        ),
    )


def _speed(pair: Pair) -> Section:
    def both(metric: str) -> str:
        return f"{duration(pair.quantile(metric, 0.5))}, {duration(pair.quantile(metric, 0.99))}"

    batch = pair.mean("ddz_redis_batch_size")
    return Section(
        "Time, median and p99",
        (
            ("command to log", both("ddz_table_durable_seconds")),
            ("command to all", both("ddz_table_pushed_seconds")),
            ("Redis", both("ddz_redis_seconds")),
            ("in a batch to Redis", "-" if math.isnan(batch) else f"{batch:.1f}"),
            ("at tables wait", number(pair.level("ddz_table_mailbox"))),
            ("frames wait", number(pair.level("ddz_table_backlog"))),
            ("slow clients", per_second(pair.rate("ddz_table_goodbyes_total", why="slow"))),
        ),
    )


def _ledger(pair: Pair) -> Section:
    batch = pair.mean("ddz_ledger_batch_size")
    return Section(
        "Ledger",
        (
            ("settlements", per_second(pair.rate("ddz_ledger_settlements_total"))),
            ("refused", per_second(pair.rate("ddz_ledger_requests_total", result="refused"))),
            ("commit, p99", duration(pair.quantile("ddz_ledger_commit_seconds", 0.99))),
            ("in a transaction", "-" if math.isnan(batch) else f"{batch:.1f}"),
            ("wait", number(pair.level("ddz_ledger_waiting"))),
            ("asked again", per_second(pair.rate("ddz_ledger_retries_total"))),
            ("oldest news", duration(pair.level("ddz_ledger_outbox_lag_seconds", max))),
        ),
    )


def _chips(pair: Pair) -> Section:
    flows = pair.rates("ddz_ledger_chips_total", "flow")
    names = {"stakes": "played for", "rake": "rake", "flee": "of who fled", "signup": "at sign-up", "relief": "relief"}
    rows = tuple((name, f"{60 * flows.get(flow, 0.0):,.0f}") for flow, name in names.items())
    return Section("Chips a minute", rows)
