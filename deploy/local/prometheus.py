"""Prometheus for a local stack, where the machine has one: it looks at every process, by deploy/prometheus."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.local import servers
from deploy.local.folders import ROOT
from deploy.local.leash import Leash
from deploy.local.ports import Ports
from deploy.local.process import Process, StackError, exchange

TEMPLATE: Final = ROOT / "deploy" / "prometheus" / "prometheus.yml"


def binary() -> Path | None:
    """The machine's Prometheus (Debian's package has it); None where there is none."""
    found = shutil.which("prometheus")
    return Path(found) if found else None


def targets(ports: Ports) -> dict[str, list[str]]:
    """Where the processes of each job tell their metrics."""
    found = {name: [f"127.0.0.1:{node.metrics}" for node in nodes] for name, nodes in ports.services.items()}
    return found | {"gateway": [f"127.0.0.1:{ports.gateway_metrics}"]}


def configuration(found: Mapping[str, Sequence[str]], *, interval: str | None = None) -> dict[str, Any]:
    """The template with these targets in the place of its names; `interval` as Prometheus writes it, such as 1s.

    Raises StackError when it has other jobs than there are targets for.
    """
    made: dict[str, Any] = yaml.safe_load(TEMPLATE.read_text())
    jobs = {job["job_name"]: job for job in made["scrape_configs"]}
    if jobs.keys() != found.keys():
        raise StackError(f"{TEMPLATE.name} has the jobs {', '.join(sorted(jobs))}, not {', '.join(sorted(found))}.")
    made["scrape_configs"] = [
        {"job_name": name, "static_configs": [{"targets": list(addresses)}]} for name, addresses in found.items()
    ]
    made["rule_files"] = [str(TEMPLATE.parent / pattern) for pattern in made["rule_files"]]
    if interval:
        made["global"] = {"scrape_interval": interval, "evaluation_interval": interval}
    return made


@contextlib.contextmanager
def running(
    leash: Leash,
    program: Path,
    folder: Path,
    port: int,
    found: Mapping[str, Sequence[str]],
    interval: str | None = None,
) -> Iterator[Process]:
    """Prometheus on loopback; ready when it says so. It keeps a day in `folder`."""
    folder.mkdir(exist_ok=True)
    path = folder / "prometheus.json"  # which is YAML too
    path.write_text(json.dumps(configuration(found, interval=interval), indent=1))
    argv: list[str | Path] = [program, f"--config.file={path}", f"--storage.tsdb.path={folder / 'data'}"]
    argv += [f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.retention.time=1d", "--log.level=warn"]
    process = servers.run(leash, "Prometheus", argv, folder)
    try:
        ask = b"GET /-/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        process.wait_until(lambda: exchange(port, ask, b"HTTP/1.1 200"))
        yield process
    finally:
        process.stop()
