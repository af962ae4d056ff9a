"""The dashboards. `python -m deploy.grafana` writes them as the JSON in dashboards/."""

from __future__ import annotations

from typing import Final

from deploy.grafana.panels import Board, Line, graph, level, named, quantiles, rate, stat

_HOUR: Final = "[1h]"

OVERVIEW: Final = Board(
    "overview",
    "Overview",
    {
        "Now": (
            stat("Players in the lobby", "short", "max(ddz_lobby_online)"),
            stat("Seats", "short", "sum(ddz_table_seats)"),
            stat("Hands being played", "short", 'sum(ddz_tables{stage="hand"})'),
            stat("Hands settled an hour", "short", f"sum(increase(ddz_ledger_settlements_total{_HOUR}))"),
            stat("Processes that answer", "short", "sum(up)"),
            stat("Faults of our own, an hour", "short", f"sum(increase(ddz_faults_total{_HOUR}))"),
        ),
        "Calls": (
            graph("Calls", "reqps", rate("ddz_rpc_seconds_count", "job")),
            graph("Calls that failed", "reqps", rate("ddz_rpc_seconds_count", "job, code", 'code!="OK"')),
            graph("Time of a call", "s", *quantiles("ddz_rpc_seconds", 0.5, 0.99, by="job")),
            graph("Open streams", "short", level("ddz_streams", "method")),
            graph("Streams that ended", "ops", rate("ddz_streams_ended_total", "job, code")),
            graph("Refusals", "ops", rate("ddz_refusals_total", "reason")),
        ),
        "Processes": (
            graph("Lateness of the event loop", "s", *quantiles("ddz_event_loop_lag_seconds", 0.99, by="instance")),
            graph("CPU", "short", rate("process_cpu_seconds_total", "job, instance")),
            graph("Memory", "bytes", level("process_resident_memory_bytes", "job, instance")),
        ),
        "Servers behind": (
            graph("Servers behind that answer", "short", level("ddz_client_up", "job, client", how="min")),
            graph("Time of a probe", "s", *quantiles("ddz_client_probe_seconds", 0.99, by="job, client")),
            graph("Probes without an answer", "ops", rate("ddz_client_failures_total", "job, client")),
        ),
        "Faults and reports": (
            graph("Faults of our own", "ops", rate("ddz_faults_total", "job, where")),
            graph("Reports of tables to the lobby", "ops", rate("ddz_lobby_reports_total", "result")),
            graph("Changes of the rooms file", "ops", rate("ddz_rooms_reloads_total", "job, result")),
        ),
    },
)

TABLE: Final = Board(
    "table",
    "Tables",
    {
        "What there is": (
            graph(
                "Tables by stage",
                "short",
                level("ddz_tables", "stage"),
                named(level("ddz_table_held"), "in memory"),
            ),
            graph(
                "People",
                "short",
                named(level("ddz_table_seats"), "seats"),
                named(level("ddz_table_observers"), "observers"),
                named(level("ddz_streams", where='job="table"'), "streams"),
            ),
            graph("Streams that ended, by why", "ops", rate("ddz_table_goodbyes_total", "why")),
        ),
        "What is done": (
            graph("Actions by kind", "ops", rate("ddz_table_actions_total", "kind")),
            graph("Actions by whom", "ops", rate("ddz_table_actions_total", "by")),
            graph("Refusals", "ops", rate("ddz_refusals_total", "reason", 'job="table"')),
            graph("Clocks that ran out", "ops", rate("ddz_table_actions_total", "kind", 'by="clock"')),
            graph("Acts of trustees", "ops", rate("ddz_table_actions_total", "kind", 'by="trustee"')),
            graph("Hands by result", "ops", rate("ddz_table_hands_total", "result")),
        ),
        "How fast": (
            graph("Command to log", "s", *quantiles("ddz_table_durable_seconds", 0.5, 0.99)),
            graph("Command to everybody", "s", *quantiles("ddz_table_pushed_seconds", 0.5, 0.99)),
            graph("Redis round trip", "s", *quantiles("ddz_redis_seconds", 0.5, 0.99, where='job="table"')),
            graph("Commands in a batch to Redis", "short", *quantiles("ddz_redis_batch_size", 0.5, 0.99, by="job")),
            graph(
                "What waits",
                "short",
                named(level("ddz_table_mailbox"), "requests at tables"),
                named(level("ddz_table_backlog"), "frames for the network"),
                named(level("ddz_redis_waiting", where='job="table"'), "commands for Redis"),
            ),
            graph(
                "What had to be mended",
                "ops",
                named(rate("ddz_table_taken_up_total"), "tables taken up"),
                named(rate("ddz_table_clocks_extended_total"), "clocks extended"),
                named(rate("ddz_redis_lost_total"), "connections to Redis lost"),
            ),
        ),
    },
)

LEDGER: Final = Board(
    "ledger",
    "Ledger",
    {
        "Requests": (
            graph("Requests", "ops", rate("ddz_ledger_requests_total", "kind, result")),
            graph("Settlements by outcome", "ops", rate("ddz_ledger_settlements_total", "outcome")),
            graph("Time of a call", "s", *quantiles("ddz_rpc_seconds", 0.5, 0.99, by="method", where='job="ledger"')),
            graph("Time of a transaction", "s", *quantiles("ddz_ledger_commit_seconds", 0.5, 0.99)),
            graph("Requests in a transaction", "short", *quantiles("ddz_ledger_batch_size", 0.5, 0.99)),
            graph("Requests that wait", "short", level("ddz_ledger_waiting", "instance")),
        ),
        "News and Postgres": (
            graph("Age of the oldest news", "s", level("ddz_ledger_outbox_lag_seconds", how="max")),
            graph("News sent", "ops", rate("ddz_ledger_news_sent_total")),
            graph("Instances that relay", "short", level("ddz_ledger_relay_leads", "instance")),
            graph("Asked of Postgres again", "ops", rate("ddz_ledger_retries_total", "error")),
            graph(
                "Time of a probe", "s", *quantiles("ddz_client_probe_seconds", 0.99, by="client", where='job="ledger"')
            ),
            graph("Postgres answers", "short", level("ddz_client_up", "job, instance", 'client="postgres"')),
        ),
        "Chips and statistics": (
            graph("Chips by flow", "short", rate("ddz_ledger_chips_total", "flow")),
            graph("News found waiting, a batch at most", "short", level("ddz_ledger_news_waiting", how="max")),
            graph("Hands taken into the statistics", "ops", rate("ddz_lobby_hands_counted_total", "result")),
        ),
    },
)

MATCHMAKING: Final = Board(
    "matchmaking",
    "Matchmaking",
    {
        "The queue": (
            graph("Tickets that wait", "short", level("ddz_match_waiting", "room", how="max")),
            graph("Time to a table, median", "s", *quantiles("ddz_match_wait_seconds", 0.5, by="room")),
            graph("Time to a table, p95", "s", *quantiles("ddz_match_wait_seconds", 0.95, by="room")),
            graph("Joins", "ops", rate("ddz_match_joins_total", "result")),
            graph("Cancels", "ops", rate("ddz_match_cancels_total", "result")),
            graph("Tickets that ended by themselves", "ops", rate("ddz_match_expiries_total", "why")),
        ),
        "Matches": (
            graph("Matches", "ops", rate("ddz_match_made_total", "room")),
            graph("Threes found, by what became of them", "ops", rate("ddz_match_claims_total", "result")),
            graph("Claim to open table", "s", *quantiles("ddz_match_open_seconds", 0.5, 0.99)),
            graph("Tables being opened", "short", level("ddz_match_opening", "instance")),
            graph("Tickets that are watched", "short", level("ddz_match_watched", "instance")),
            graph("Redis round trip", "s", *quantiles("ddz_redis_seconds", 0.5, 0.99, where='job="matchmaking"')),
        ),
    },
)

_DOOR: Final = 'envoy_http_conn_manager_prefix="door"'
_SERVICES: Final = 'envoy_cluster_name=~"lobby|matchmaking|table|ledger"'

EDGE: Final = Board(
    "edge",
    "Edge",
    {
        "From outside": (
            graph("Connections", "short", level("envoy_http_downstream_cx_active", where=_DOOR)),
            graph(
                "Requests by class of answer",
                "reqps",
                rate("envoy_http_downstream_rq_xx", "envoy_response_code_class", _DOOR),
            ),
            graph(
                "Requests under way, streams included", "short", level("envoy_http_downstream_rq_active", where=_DOOR)
            ),
            graph(
                "Bytes",
                "Bps",
                named(rate("envoy_http_downstream_cx_rx_bytes_total", where=_DOOR), "in"),
                named(rate("envoy_http_downstream_cx_tx_bytes_total", where=_DOOR), "out"),
            ),
            graph(
                "Too many calls",
                "ops",
                rate("envoy_http_local_rate_limit_enforced", "envoy_local_http_ratelimit_prefix"),
            ),
            graph("Tokens refused", "ops", rate("envoy_http_jwt_authn_denied", where=_DOOR)),
        ),
        "To the services": (
            graph("Requests", "reqps", rate("envoy_cluster_upstream_rq_total", "envoy_cluster_name", _SERVICES)),
            graph(
                "Processes in use", "short", level("envoy_cluster_membership_healthy", "envoy_cluster_name", _SERVICES)
            ),
            graph(
                "Connections that failed",
                "ops",
                rate("envoy_cluster_upstream_cx_connect_fail", "envoy_cluster_name", _SERVICES),
            ),
        ),
        "Log-ins": (
            graph("Log-ins", "ops", rate("ddz_logins_total", "method, result")),
            graph("Acts of operators", "ops", rate("ddz_admin_acts_total", "act, outcome")),
            graph("Lobby streams", "short", level("ddz_streams", "method", 'job="lobby"')),
            graph("Memory of the gateway", "bytes", level("envoy_server_memory_physical_size", "instance")),
        ),
    },
)


def _share(part: Line, whole: Line, legend: str) -> Line:
    return Line(f"{part.expression} / {whole.expression}", legend)


_HANDS: Final = rate("ddz_table_hands_total", "book")

BUSINESS: Final = Board(
    "business",
    "Business",
    {
        "People": (
            graph("Players in the lobby", "short", level("ddz_lobby_online", how="max")),
            graph("New accounts", "ops", rate("ddz_logins_total", "method", 'result="created"')),
            graph("Tables, by room", "short", level("ddz_lobby_tables", "room", how="max")),
            graph("Seats taken, by room", "short", level("ddz_lobby_seated", "room", how="max")),
        ),
        "Hands": (
            graph("Hands by book", "ops", _HANDS),
            graph("Hands by result", "ops", rate("ddz_table_hands_total", "result")),
            graph(
                "Multiplier, mean",
                "short",
                _share(
                    rate("ddz_table_multiplier_sum", "book"), rate("ddz_table_multiplier_count", "book"), "{{book}}"
                ),
            ),
            graph("Multiplier, p95", "short", *quantiles("ddz_table_multiplier", 0.95, by="book")),
            graph(
                "Share of hands that somebody fled from",
                "percentunit",
                _share(rate("ddz_table_hands_total", "book", 'result="fled"'), _HANDS, "{{book}}"),
            ),
            graph(
                "Deals for a hand that nobody wanted",
                "short",
                _share(rate("ddz_table_redeals_total", "book"), _HANDS, "{{book}}"),
            ),
            graph("Matches", "ops", rate("ddz_match_made_total", "room")),
        ),
        "Chips": (
            graph("Played for", "short", rate("ddz_ledger_chips_total", "flow", 'flow="stakes"')),
            graph("To the house", "short", rate("ddz_ledger_chips_total", "flow", 'flow=~"rake|flee"')),
            graph("Given", "short", rate("ddz_ledger_chips_total", "flow", 'flow=~"signup|relief|gift"')),
        ),
    },
)

BOARDS: Final = (OVERVIEW, TABLE, LEDGER, MATCHMAKING, EDGE, BUSINESS)
