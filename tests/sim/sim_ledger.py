"""`make sim-ledger`: the ledger's proofs at full length: batches against the rules core, contention, random lives.

The tests of the same names run a short form with every `make test`. Here: 2,000 batches of 32 settlements of every case
against the pure rules; 16 writers on 60 accounts for 30 s without a deadlock or a serialization failure, and the same
writers without the order of locks, who do meet in deadlocks; 100 lives of 25 random steps with all invariants after
every step. The last line is JSON; the exit status is 1 when a proof fails.

BATCHES, SECONDS and LIVES change the lengths.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ("differential", "contention", "machine")


def main() -> None:
    full = {"BATCHES": "2000", "SECONDS": "30", "LIVES": "100"}
    lengths = {name: os.environ.get(name, length) for name, length in full.items()}
    environment = os.environ | {
        "DDZ_LEDGER_BATCHES": lengths["BATCHES"],
        "DDZ_LEDGER_CONTENTION_S": lengths["SECONDS"],
        "DDZ_LEDGER_EXAMPLES": lengths["LIVES"],
    }
    files = [f"tests/services/ledger/test_ledger_{name}.py" for name in TESTS]
    started_s = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "-rP", "--timeout=3600", *files]
    status = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    found = {name.lower(): int(length) for name, length in lengths.items()}
    print(json.dumps(found | {"took_s": round(time.monotonic() - started_s, 1), "ok": status == 0}))
    sys.exit(1 if status else 0)


if __name__ == "__main__":
    main()
