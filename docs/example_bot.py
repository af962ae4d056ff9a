"""A bot of your own: it plays 欢乐斗地主 against two bots of the library.

`make up`, then .venv/bin/python docs/example_bot.py, with another address if it is not this machine's.
"""

import asyncio
import sys
import uuid

from ddzclient import LOCAL_GATEWAY, ClientError, Gateway, Player, Refusal, Session, play_room
from doudizhu import Hand, legal_actions
from doudizhu.hand import Action, Bid, Pass, Play, Show


def choose(view: Hand, seat: int) -> Action | None:
    """Bids the most there is, never shows, puts down as many cards as it can, and passes only when it must."""
    actions = legal_actions(view, seat)  # of what I may know: my own cards, and what lies open
    plays = [action for action in actions if isinstance(action, Play)]
    if plays:
        return max(plays, key=lambda play: (len(play.cards), -max(play.cards)))
    bids = [action for action in actions if isinstance(action, Bid)]
    if bids:
        return bids[-1]
    return next((action for action in actions if isinstance(action, Pass | Show)), None)


async def main(address: str) -> None:
    async with Gateway(address) as gateway:
        people = [await Session.guest(gateway, device_key=f"example-{uuid.uuid4()}") for _ in range(3)]
        players = Player(choose), Player(), Player()
        await asyncio.gather(*map(play_and_tell, people, players))


async def play_and_tell(me: Session, player: Player) -> None:
    hands = await play_room(me, "happy-beginner", player, hands=2)
    sys.stdout.write(f"{me.player.display_name}: {len(hands)} hands, {(await me.balance()).chips} chips left\n")


if __name__ == "__main__":
    gateway_address = sys.argv[1] if len(sys.argv) > 1 else LOCAL_GATEWAY
    try:
        asyncio.run(main(gateway_address))
    except (ClientError, Refusal) as error:
        sys.exit(f"No game at {gateway_address}: {error}. Does `make up` run?")
