"""The client of a Dou Dizhu (斗地主) server: log in, find a table, play, over every break of the connection.

async with Gateway(LOCAL_GATEWAY) as gateway:
    me = await Session.guest(gateway, "my-device-key-01")
    await play_room(me, "happy-beginner", Player(), hands=3)
"""

from ddzclient.books import book_of
from ddzclient.client import LOCAL_GATEWAY, Gateway
from ddzclient.errors import ClientError, ServerFault, TableGone, TicketEnded, Unreachable
from ddzclient.player import Player, find_table, play_room
from ddzclient.policy import Policy, hand_of, to_wire
from ddzclient.session import Session
from ddzclient.table import Action, TableView, Update
from doudizhu.refusal import Refusal

__all__ = [
    "LOCAL_GATEWAY",
    "Action",
    "ClientError",
    "Gateway",
    "Player",
    "Policy",
    "Refusal",
    "ServerFault",
    "Session",
    "TableGone",
    "TableView",
    "TicketEnded",
    "Unreachable",
    "Update",
    "book_of",
    "find_table",
    "hand_of",
    "play_room",
    "to_wire",
]
