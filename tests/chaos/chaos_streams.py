"""`make chaos-streams`: 10,000 idle streams from one address; its limit must hold while others play and are served.

The last line is JSON; the exit status is 1 when something did not hold.
"""

from __future__ import annotations

import argparse
import json

import uvloop

from deploy.local import folders
from deploy.local.leash import Leash
from tests.edge.fort import fort
from tests.edge.idle import siege


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=10_000)
    parser.add_argument("--per-process", type=int, default=1_000, help="what one address may hold at a process")
    arguments = parser.parse_args()
    folder = folders.scratch()
    extra = {"DDZ_STREAMS_PER_ADDRESS": str(arguments.per_process)}
    with Leash(folder) as leash, fort(leash, folder / "fort", extra=extra) as running:
        result = uvloop.run(siege(running, arguments.streams, arguments.per_process))
    for sentence in result["wrong"]:
        print(f"WRONG {sentence}")
    print(json.dumps(result | {"wrong": len(result["wrong"])}))
    raise SystemExit(1 if result["wrong"] else 0)


if __name__ == "__main__":
    main()
