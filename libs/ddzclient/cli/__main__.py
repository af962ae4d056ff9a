"""`python -m ddzclient.cli`: the `ddz` command."""

import sys

from ddzclient.cli import main

sys.exit(main())
