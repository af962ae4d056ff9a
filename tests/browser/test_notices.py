"""What operators tell to all stands on every page until it is over."""

from __future__ import annotations

import secrets

import pytest

from ddz.admin.v1.admin_pb2 import SetMaintenanceRequest
from ddzclient.client import Gateway
from ddzclient.session import Session
from deploy.local.stack import Stack
from services.lobby import store
from tests.browser.person import Crowd
from tests.browser.test_pages import text

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


async def maintenance(stack: Stack, on: bool, message: str = "") -> None:
    async with Gateway(stack.address) as gateway:
        name, password = f"op-{secrets.token_hex(6)}", secrets.token_hex(8)
        await Session.register(gateway, name, password)
        await store.appoint(stack.postgres.dsn("ddz_owner"), name)
        operator = await Session.log_in(gateway, name, password)
        request = SetMaintenanceRequest(act_id=secrets.token_hex(8), reason="a test", on=on, message=message)
        await operator.call(gateway.admin.SetMaintenance, request)


async def test_maintenance_is_told_in_the_lobby_and_at_the_table(crowd: Crowd, stack: Stack) -> None:
    watching, seated = await crowd.person(), await crowd.person(360, 640, "en-GB", "rooms/happy-beginner")
    await watching.see(".room")
    await seated.page.get_by_role("button", name="Open a table").first.click()
    await seated.see(".bar")
    await maintenance(stack, True, "12:00 回来 <b>back</b>")
    try:
        for person in (seated, watching):
            await person.see(".notice")
            assert await person.fits()
        assert await text(watching, ".notice") == "系统维护：12:00 回来 <b>back</b>"
        assert await text(seated, ".bar .notice") == "Maintenance: 12:00 回来 <b>back</b>"
    finally:
        await maintenance(stack, False)
    for person in (seated, watching):
        await person.page.wait_for_selector(".notice", state="detached")


async def test_a_notice_outlives_a_snapshot_in_the_middle_of_a_stream(crowd: Crowd) -> None:
    person = await crowd.person()
    await person.see(".room")
    notices = await person.page.evaluate(
        """async () => {
          const { Session } = await import("/app/net/session.js");
          const { Table } = await import("/app/net/table.js");
          const session = new Session();
          session.notice = "of a maintenance that is over";
          const table = new Table(session, "t1", { changed() {}, ended() {} });
          const snapshot = { seq: "1", atMs: "0", seats: [], trick: [], clock: {} };
          const notice = { maintenance: true, message: "back at noon" };
          return [{ snapshot }, { notice }, { snapshot }].map((message) => {
            table.take(message);
            return session.notice;
          });
        }"""
    )
    assert notices == ["", "back at noon", "back at noon"]
