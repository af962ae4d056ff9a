"""`python -m deploy.grafana`: writes the dashboards; with --check, says which files are not what it would write."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from deploy.grafana.boards import BOARDS
from deploy.grafana.panels import dashboard

FOLDER: Final = Path(__file__).parent / "dashboards"


def files() -> dict[str, str]:
    """What the folder holds, by file name."""
    return {f"{board.uid}.json": json.dumps(dashboard(board), indent=1) + "\n" for board in BOARDS}


def main() -> None:
    """Writes or checks; exits 1 when a file is not as it should be."""
    wanted = files()
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*")}
    if "--check" in sys.argv[1:]:
        stale = sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))
        if stale:
            sys.exit(f"{', '.join(stale)}: not as boards.py describes; run python -m deploy.grafana.")
        return
    FOLDER.mkdir(exist_ok=True)
    for name in there.keys() - wanted.keys():
        (FOLDER / name).unlink()
    for name, text in wanted.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
