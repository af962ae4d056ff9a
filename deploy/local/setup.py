"""`make setup`: the environment in .venv and the gateway's descriptors; quick when nothing has changed since.

Run by whatever Python the person has, with nothing installed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
IMAGE = ROOT / "build" / "ddz.binpb"


def fail(sentence: str) -> NoReturn:
    """Ends with one sentence."""
    sys.exit(sentence)


def digest(paths: Iterable[Path], *also: str) -> str:
    """What a stamp holds: changes with any of the files, their names, or the texts."""
    sum_ = hashlib.sha256("\0".join(also).encode())
    for path in sorted(paths):
        sum_.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return sum_.hexdigest()


def distribution() -> str:
    """What of pyproject.toml an installation depends on."""
    import tomllib  # not there in a Python that is too old, which main tells the person

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return repr((settings["build-system"], settings["project"], settings["tool"]["hatch"]))


def fresh(stamp: Path, value: str) -> bool:
    """Whether the stamp was written with this value."""
    return stamp.exists() and stamp.read_text() == value


def make_venv() -> None:
    """A new .venv."""
    shutil.rmtree(VENV, ignore_errors=True)
    print(f"making .venv with Python {sys.version.split()[0]}", flush=True)
    done = subprocess.run([sys.executable, "-m", "venv", str(VENV)], capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(VENV, ignore_errors=True)
        fail(
            "Python could not make a virtual environment; on Debian and Ubuntu `apt install python3-venv` helps.\n"
            + "\n".join((done.stdout + done.stderr).strip().splitlines()[-3:])
        )


def pip(*arguments: str) -> None:
    """Runs pip with one line of progress; shows the end of what it said when it fails."""
    command = [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check", "--no-input", *arguments]
    said: list[str] = []
    collected = 0
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                said.append(line)
                if line.startswith("Collecting "):
                    collected += 1
                    if sys.stdout.isatty():
                        print(f"\r\033[Kinstalling {collected}: {line.split()[1].split('=')[0]}", end="", flush=True)
        except BaseException:  # Ctrl-C, or make is gone: pip goes too, and this does not wait for it to finish
            process.kill()
            raise
    if collected and sys.stdout.isatty():
        print("\r\033[K", end="")
    if process.returncode:
        fail("pip could not install the packages:\n" + "".join(said[-15:]))


def end_in_time() -> None:
    """Makes SIGTERM, and the end of the make that runs this, an exit that takes pip along."""
    sys.path.insert(0, str(ROOT))  # nothing is installed yet
    from deploy.local.leash import end_with_make  # not for a Python that is too old

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    end_with_make(lambda: os.kill(os.getpid(), signal.SIGTERM))


def main() -> None:
    """Does what is not done yet."""
    if sys.version_info < (3, 11):  # noqa: UP036 -- run by whatever Python the person names
        fail("Python 3.11 or newer is needed; name one with `make PYTHON=/path/to/python3.12 …`.")
    end_in_time()
    (ROOT / ".run").mkdir(exist_ok=True)
    with (ROOT / ".run" / "setup.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        installed = digest([ROOT / "requirements.lock"], str(ROOT), distribution())
        if not fresh(VENV / "installed", installed) or not os.access(PYTHON, os.X_OK):
            started = time.monotonic()
            if not os.access(PYTHON, os.X_OK):
                make_venv()
            print(
                "installing the packages of requirements.lock into .venv (several minutes on a slow machine) …",
                flush=True,
            )
            pip("--require-hashes", "-r", "requirements.lock")
            pip("--no-deps", "--no-build-isolation", "-e", ".")
            (VENV / "installed").write_text(installed)
            print(f"installed in {time.monotonic() - started:.0f} s", flush=True)
        sources = digest([*(ROOT / "proto").rglob("*.proto"), ROOT / "proto" / "generate.py"], installed)
        if not fresh(IMAGE.with_suffix(".stamp"), sources) or not IMAGE.exists():
            subprocess.run([str(PYTHON), "proto/generate.py", "--image", str(IMAGE)], cwd=ROOT, check=True)
            IMAGE.with_suffix(".stamp").write_text(sources)


if __name__ == "__main__":
    main()
