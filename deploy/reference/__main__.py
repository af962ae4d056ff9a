"""`python -m deploy.reference` writes docs/api; with `--check` it fails when docs/api is not what the protos say."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from google.protobuf.descriptor_pb2 import FileDescriptorSet

from deploy.local.folders import ROOT
from deploy.reference.pages import Reference

PAGES: Final = ROOT / "docs" / "api"


def pages() -> dict[str, str]:
    """File name -> text, from the protos as they are now."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "image.binpb"
        subprocess.run([sys.executable, ROOT / "proto" / "generate.py", "--image", path], check=True)
        return Reference(FileDescriptorSet.FromString(path.read_bytes())).pages()


def stale(wanted: dict[str, str]) -> list[str]:
    """Names of pages that are not as wanted, or are not wanted at all."""
    found = {path.name: path.read_text(encoding="utf-8") for path in PAGES.glob("*.md")}
    return sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))


def main() -> None:
    """Writes or checks, as the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m deploy.reference", description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit 1 when a page is stale")
    arguments = parser.parse_args()
    wanted = pages()
    names = stale(wanted)
    if arguments.check:
        sys.exit(f"docs/api is stale ({', '.join(names[:3])} …): run `make proto` and commit it." if names else 0)
    PAGES.mkdir(exist_ok=True)
    for name in names:
        if name in wanted:
            (PAGES / name).write_text(wanted[name], encoding="utf-8")
        else:
            (PAGES / name).unlink()


if __name__ == "__main__":
    main()
