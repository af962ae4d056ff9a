"""The image without an engine: its folders made as the Dockerfile says, and its programs run from them.

What it is made of is checked against the tools that read it by `make check-deploy`, which also installs its packages.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

from deploy.check import image
from deploy.containers.descriptors import descriptors
from deploy.local import certificates, ports, servers
from deploy.local.folders import ROOT
from deploy.local.leash import Leash


@pytest.fixture(scope="module")
def app(scratch: Path) -> Path:
    """/app of the image."""
    path = scratch / "image" / "app"
    image.build(path)
    return path


def start(app: Path, *arguments: str) -> list[str]:
    """What ENTRYPOINT makes of a command, with the Python of the tests."""
    first, *rest = image.command("ENTRYPOINT")
    assert first == "python"
    return [sys.executable, *rest, *arguments]


def run(app: Path, *arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    env = image.told(app) | (env or {})
    return subprocess.run(start(app, *arguments), cwd=app, env=env, capture_output=True, text=True, timeout=60)


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


def test_only_what_runs_is_in_the_image(app: Path) -> None:
    top = {path.relative_to(app).as_posix() for path in [*app.iterdir(), *(app / "deploy").iterdir()]}
    folders = {"containers", "envoy", "local", "postgres", "web", "rooms.yaml", "rooms.fast.yaml"}
    assert top == {"libs", "services", "deploy"} | {f"deploy/{name}" for name in folders}
    assert image.sent("libs/doudizhu/cards.py")
    assert image.sent("deploy/web/app/main.js")
    for name in (
        ".git/config",
        ".env",
        ".run/local/x",
        "tests/conftest.py",
        "build/ddz.binpb",
        "libs/__pycache__/a.pyc",
    ):
        assert not image.sent(name), name


def test_the_gateway_reads_what_its_container_is_given(app: Path, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    certificates.inside(inside, [certificates.GATEWAY])
    for arguments in ([], [f"--inside={inside}"]):
        done = run(app, "deploy.containers", "gateway", f"--folder={tmp_path}", *arguments)
        assert done.returncode == 0, done.stderr
    valid: list[str | Path] = [
        servers.envoy_binary(),
        "--mode",
        "validate",
        "-l",
        "error",
        "-c",
        tmp_path / "envoy.json",
    ]
    assert subprocess.run(valid, capture_output=True, text=True, timeout=60).returncode == 0
    listeners = json.loads((tmp_path / "envoy.json").read_text())["static_resources"]["listeners"]
    listening = [one["address"]["socket_address"] for one in listeners]
    assert [(one["address"], one["port_value"]) for one in listening] == [
        ("0.0.0.0", 8080), ("0.0.0.0", 8443), ("0.0.0.0", 9100),
    ]  # fmt: skip
    assert str(ROOT) not in (tmp_path / "envoy.json").read_text()


def test_its_descriptors_are_those_that_protoc_makes() -> None:
    """But for the comments, and for the files that no public service needs."""
    ours = {file.name: file for file in descriptors().file}
    made = descriptor_pb2.FileDescriptorSet.FromString((ROOT / "build" / "ddz.binpb").read_bytes())
    theirs = {file.name: file for file in made.file}
    assert {name for name in theirs if name.startswith("ddz/")} - set(ours) <= {"ddz/ledger/v1/news.proto"}
    for name, file in ours.items():
        if name.startswith("ddz/"):
            theirs[name].ClearField("source_code_info")
            assert {service.name: len(service.method) for service in file.service} == {
                service.name: len(service.method) for service in theirs[name].service
            }
            assert file.service == theirs[name].service  # with their REST bindings
            assert list(file.dependency) == list(theirs[name].dependency)


def test_a_key_that_is_there_stays(app: Path, tmp_path: Path) -> None:
    assert run(app, "deploy.containers", "keys", str(tmp_path)).returncode == 0
    key = (tmp_path / "signing-keys.json").read_text()
    assert run(app, "deploy.containers", "keys", str(tmp_path)).returncode == 0
    assert (tmp_path / "signing-keys.json").read_text() == key
    assert (tmp_path / "signing-keys.json").stat().st_mode & 0o077 == 0


def test_a_service_migrates_serves_tells_its_health_and_writes_nothing(
    app: Path, leash: Leash, postgres: servers.Postgres, nats: str, tmp_path: Path
) -> None:
    before = files(app)
    postgres.psql("CREATE DATABASE image OWNER ddz_owner")
    owner = {"DDZ_POSTGRES_OWNER_DSN": postgres.dsn("ddz_owner", "image")}
    done = run(app, "services.ledger", "migrate", env=owner)
    assert (done.returncode, "0001_accounts.sql" in done.stderr) == (0, True), done.stderr
    grpc_port, metrics_port = ports.free(2)
    env = {
        "DDZ_GRPC_ADDRESS": f"0.0.0.0:{grpc_port}",
        "DDZ_METRICS_ADDRESS": f"127.0.0.1:{metrics_port}",
        "DDZ_POSTGRES_DSN": postgres.dsn("ddz_ledger", "image"),
        "DDZ_NATS_URL": nats,
    }
    health = image.command("HEALTHCHECK")
    assert health == ["python", "-m", "servicekit.health"]
    assert run(app, health[-1], env=env).returncode == 1
    argv = start(app, "services.ledger")
    process = servers.run(leash, "image-ledger", argv, tmp_path, env=image.told(app) | env, cwd=app)
    process.wait_until(lambda: run(app, health[-1], env=env).returncode == 0)
    process.popen.send_signal(signal.SIGTERM)
    assert process.popen.wait(30) == 0
    assert (
        str(app)
        in subprocess.run(
            start(app, "site"), env=image.told(app), cwd=app, capture_output=True, text=True, timeout=60
        ).stdout
    )  # the code that ran is the image's
    assert files(app) == before
