"""The one table from reasons to statuses, and a refusal's way over a real connection and back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import asyncpg
import grpc
import pytest

from ddz.common.v1 import common_pb2, hand_pb2
from ddz.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from ddz.table.v1 import table_pb2
from doudizhu import refusal
from doudizhu.refusal import Illegal, Refusal
from servicekit import errors, identity, metrics
from servicekit.remote import Silence
from servicekit.server import ServerConfig, channel, serving
from tests.services.ledger.test_ledger_trouble import PASSES, named


class Ledger(ledger_pb2_grpc.LedgerServiceServicer):
    """Refuses, breaks or answers, as the hand id says."""

    names = ("ddz.ledger.v1.LedgerService",)
    drained = False
    fault: Exception = AssertionError("secret detail")

    def register(self, server: grpc.aio.Server) -> None:
        ledger_pb2_grpc.add_LedgerServiceServicer_to_server(self, server)

    async def drain(self) -> None:
        self.drained = True

    async def GetHand(self, request: ledger_pb2.GetHandRequest, context: Any) -> ledger_pb2.GetHandResponse:
        if request.hand_id == "broken":
            raise self.fault
        raise Refusal("NOT_FOUND", "no such hand", field="hand_id", hand_id=request.hand_id)

    async def GetBalance(self, request: ledger_pb2.GetBalanceRequest, context: Any) -> ledger_pb2.GetBalanceResponse:
        return ledger_pb2.GetBalanceResponse(balance=ledger_pb2.Balance(player_id=identity.player_id(context)))


@pytest.fixture
async def stub() -> AsyncIterator[ledger_pb2_grpc.LedgerServiceAsyncStub]:
    config = ServerConfig(grpc_address="127.0.0.1:0", metrics_address="127.0.0.1:0")
    service = cast("Any", Ledger)()  # it answers two of the service's calls only
    async with serving(config, service) as port, channel(f"127.0.0.1:{port}") as connection:
        yield ledger_pb2_grpc.LedgerServiceStub(connection)
    assert service.drained


def test_every_reason_has_one_status() -> None:
    names = {name.removeprefix("REASON_") for name, _ in common_pb2.Reason.items()} - {"UNSPECIFIED"}
    assert set(errors.STATUS) == names


def test_a_client_cannot_cause_the_statuses_of_our_own_faults() -> None:
    ours = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DATA_LOSS}
    assert not ours & set(errors.STATUS.values())


def test_reasons_of_the_rules_are_on_the_wire() -> None:
    assert {str(reason) for reason in refusal.Reason} <= set(errors.STATUS)


async def test_a_refusal_arrives_with_reason_field_and_data(stub: Any) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.GetHand(ledger_pb2.GetHandRequest(hand_id="h1"))
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND
    refused = errors.from_rpc_error(caught.value)
    assert refused is not None
    assert (refused.reason, refused.field, refused.data) == ("NOT_FOUND", "hand_id", {"hand_id": "h1"})


async def test_a_field_out_of_range_is_named(stub: Any) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.GetHand(ledger_pb2.GetHandRequest(hand_id="no spaces"))
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    refused = errors.from_rpc_error(caught.value)
    assert refused is not None
    assert refused.field == "hand_id"


async def test_our_own_fault_is_counted_and_tells_nothing(stub: Any) -> None:
    before = metrics.FAULTS.labels("rpc")._value.get()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.GetHand(ledger_pb2.GetHandRequest(hand_id="broken"))
    assert caught.value.code() == grpc.StatusCode.INTERNAL
    assert "secret" not in str(caught.value.details())
    assert metrics.FAULTS.labels("rpc")._value.get() == before + 1


@pytest.mark.parametrize("error", PASSES, ids=named)
async def test_what_passes_is_no_fault_of_ours(stub: Any, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for a key that is taken: the ledger alone knows that it was another instance's."""
    monkeypatch.setattr(Ledger, "fault", error)
    before = metrics.FAULTS.labels("rpc")._value.get()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.GetHand(ledger_pb2.GetHandRequest(hand_id="broken"))
    ours = isinstance(error, asyncpg.UniqueViolationError)
    assert caught.value.code() == (grpc.StatusCode.INTERNAL if ours else grpc.StatusCode.UNAVAILABLE)
    assert metrics.FAULTS.labels("rpc")._value.get() == before + ours


async def test_without_the_gateways_header_nobody_calls(stub: Any) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.GetBalance(ledger_pb2.GetBalanceRequest())
    assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED
    answer = await stub.GetBalance(ledger_pb2.GetBalanceRequest(), metadata=((identity.PLAYER_HEADER, "p1"),))
    assert answer.balance.player_id == "p1"


def act(**action: Any) -> table_pb2.ActRequest:
    return table_pb2.ActRequest(table_id="t", command=table_pb2.Command(command_id="c", **action))


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (table_pb2.ActRequest(table_id="t"), "command"),
        (act(), "command.action"),
        (act(bid=hand_pb2.Bid(level=4)), "command.bid.level"),
        (act(play=hand_pb2.PlayCards(cards=[99])), "command.play.cards"),
    ],
)
def test_validation_names_the_field(request_: table_pb2.ActRequest, field: str) -> None:
    with pytest.raises(Refusal) as caught:
        errors.validate(request_)
    assert caught.value.reason == "INVALID"
    assert caught.value.field == field


@pytest.mark.parametrize("kept", [Illegal("WRONG_PHASE", "not now", field="bid", level=3), Silence("ledger")])
def test_a_refusal_anew_is_equal_and_has_not_been_raised(kept: Refusal) -> None:
    with pytest.raises(type(kept)):
        raise kept
    same = kept.anew()
    assert type(same) is type(kept)
    assert (same.args, vars(same), str(same)) == (kept.args, vars(kept), str(kept))
    assert same.__traceback__ is None
