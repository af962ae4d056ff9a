"""`ddz admin`, when it cannot be known whether an act was done: it says so, and how it is not done twice."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from typing import Any

import pytest

from ddz.admin.v1 import admin_pb2, admin_pb2_grpc
from ddzclient.cli.operate import is_in_doubt
from ddzclient.errors import ServerFault, Unreachable
from deploy.local.folders import ROOT
from doudizhu.refusal import Refusal
from tests.client.scripted import scripted_lobby, serve


class ForgetfulAdmin(admin_pb2_grpc.AdminServiceServicer):
    """Gives chips once an id, and loses the first answer."""

    def __init__(self) -> None:
        self.chips = 0
        self.acts: set[str] = set()

    async def Grant(self, request: admin_pb2.GrantRequest, _context: Any) -> admin_pb2.GrantResponse:
        is_known = request.act_id in self.acts
        self.chips += 0 if is_known else request.chips
        self.acts.add(request.act_id)
        if not is_known:
            raise ZeroDivisionError
        return admin_pb2.GrantResponse(chips=self.chips)


async def grant(address: str, *more: str) -> tuple[int | None, str, str]:
    command = [sys.executable, "-m", "ddzclient.cli", "admin", "grant", "p7", "500", "--reason", "a test", *more]
    process = await asyncio.create_subprocess_exec(
        *command,
        *("--server", address, "--name", "op"),
        cwd=ROOT,
        env=os.environ | {"DDZ_OPERATOR_PASSWORD": "correct horse"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def test_a_grant_whose_answer_is_lost_is_repeated_by_its_id() -> None:
    admin = ForgetfulAdmin()  # type: ignore[abstract]
    async with serve(lobby=scripted_lobby(), admin=admin) as address:
        code, _, said = await grant(address)
        assert code == 2
        found = re.search(r"It may have been done. Repeated with --act-id ([0-9a-f]{32}) it is not done twice.\n", said)
        assert found is not None, said
        assert await grant(address, "--act-id", found[1]) == (0, "p7 has 500 chips.\n", "")
    assert (admin.chips, admin.acts) == (500, {found[1]})


@pytest.mark.parametrize(
    ("error", "in_doubt"),
    [
        (Unreachable("DEADLINE_EXCEEDED: "), True),
        (ServerFault("INTERNAL: "), True),
        (Refusal("UNAVAILABLE", "Away."), True),
        (Refusal("NOT_FOUND", "Nobody."), False),
    ],
)
def test_what_leaves_an_act_in_doubt(error: Any, in_doubt: bool) -> None:
    assert is_in_doubt(error) is in_doubt
