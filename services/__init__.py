"""Four services; each runs as a process, `python -m services.<name>`."""

import os

# grpc reads it when it is imported, so it is set before any module of a service is. gRPC's older poller has a thread
# less between the socket and our event loop (docs/decisions/0025-grpc-poller.md).
os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_client,-event_engine_listener")
