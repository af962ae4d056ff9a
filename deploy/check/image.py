"""The image without an engine: what the Dockerfile copies, put where it copies it, and its programs run from there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from deploy.local.folders import ROOT
from deploy.local.ports import SERVICES

FOLDER: Final = ROOT / "deploy" / "containers"
DOCKERFILE: Final = FOLDER / "Dockerfile"
_CODE: Final = "code"  # the stage that has the repository's files
_GOES_ON: Final = re.compile(r"\\\n\s*")


class Line(NamedTuple):
    """An instruction and the rest of its line, in which stage."""

    stage: str
    word: str
    rest: str


def lines() -> Iterator[Line]:
    """The Dockerfile's instructions."""
    stage = ""
    for line in _GOES_ON.sub(" ", DOCKERFILE.read_text(encoding="utf-8")).splitlines():
        if not line or line.startswith("#"):
            continue
        word, _, rest = line.partition(" ")
        if word == "FROM":
            stage = rest.partition(" AS ")[2]
        yield Line(stage, word, rest)


def environment() -> dict[str, str]:
    """What ENV sets in the image."""
    found = [part.partition("=") for line in lines() if line.word == "ENV" for part in line.rest.split()]
    return {name: value for name, _, value in found}


def command(word: str) -> list[str]:
    """ENTRYPOINT, CMD or the command of HEALTHCHECK."""
    [rest] = [line.rest for line in lines() if line.word == word]
    return list(json.loads(rest[rest.index("[") :]))


def sent(path: str) -> bool:
    """Whether Dockerfile.dockerignore lets the builder see a file; the last rule that fits decides."""
    seen = True
    for rule in (FOLDER / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines():
        if not rule or rule.startswith("#"):
            continue
        names = [path, *(str(parent) for parent in Path(path).parents)]
        if any(re.fullmatch(_pattern(rule.removeprefix("!")), name) for name in names):
            seen = rule.startswith("!")
    return seen


def _pattern(rule: str) -> str:
    """A rule of Dockerfile.dockerignore as a regular expression: `*` within a name, `**/` for any folders."""
    parts = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(parts.get(part) or re.escape(part) for part in re.split(r"(\*\*/|\*\*|\*|\?)", rule))


def files() -> list[str]:
    """What the builder sees: tracked files, and those that would be."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [name for name in names if (ROOT / name).is_file() and sent(name)]


def build(app: Path) -> None:
    """Copies into `app` what the code stage copies; raises ValueError for a source that the builder does not see."""
    seen = files()
    for line in lines():
        if line.word != "COPY" or line.rest.startswith("--from"):
            continue
        source, target = line.rest.split()
        wanted = [name for name in seen if name == source or name.startswith(f"{source}/")]
        if not wanted:
            raise ValueError(f"COPY {source}: nothing of it is sent to the builder")
        for name in wanted if line.stage == _CODE else []:
            to = app / target / Path(name).relative_to(source)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, to)


def told(app: Path) -> dict[str, str]:
    """The image's environment with /app where it was built."""
    env = environment()
    return env | {"PYTHONPATH": env["PYTHONPATH"].replace("/app", str(app))}


def check() -> str:
    """Builds it with its own packages and asks each program something that it can answer alone; why not, or empty."""
    with tempfile.TemporaryDirectory() as folder:
        app, venv = Path(folder) / "app", Path(folder) / "venv"
        build(app)
        lock = FOLDER / "requirements.lock"
        install = ["install", "-q", "--disable-pip-version-check", "--no-compile", "--only-binary", ":all:"]
        failed = _run([sys.executable, "-m", "venv", str(venv)], {}, app)
        failed = failed or _run([str(venv / "bin" / "pip"), *install, "--require-hashes", "-r", str(lock)], {}, app)
        if failed:
            return failed
        python = [str(venv / "bin" / "python"), *command("ENTRYPOINT")[1:]]
        works = [["deploy.containers", "keys", folder], ["deploy.containers", "gateway", f"--folder={folder}"]]
        works += [["ddzclient.cli", "--help"]]
        for arguments in works:
            if failed := _run([*python, *arguments], told(app), app):
                return failed
        for module in [*(f"services.{service}" for service in SERVICES), "servicekit.health"]:
            said = _run([*python, module], told(app), app)
            if " is not set " not in said or said.count("\n") != 1:
                return f"{module} said, without any variable: {said}"
        return ""


def _run(argv: list[str], env: dict[str, str], cwd: Path) -> str:
    done = subprocess.run(argv, env=env or None, cwd=cwd, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr or done.stdout or f"exit {done.returncode}"
