"""Who sits, watches, sets the base, agrees and is ready; and what follows by itself (RULES.md section 4)."""

from __future__ import annotations

from doudizhu import Illegal, Refusal
from services.table import commands, events
from services.table.draft import Draft
from services.table.table import SEATS, Phase, Stage, Table, Trustee
from services.table.terms import Reason


def sit(draft: Draft, command: commands.Sit) -> None:
    """Seats a person; the same person again changes nothing. Raises TABLE_CLOSED, ROOM_FULL or SEAT_TAKEN."""
    table = draft.table
    if table.seat_of(command.person.player_id) is not None:
        return
    require_open(table)
    free = [number for number in SEATS if table.seats[number].person is None]
    if not free or table.terms.matched:
        raise Refusal(Reason.ROOM_FULL, "there is no free seat at this table")
    if command.seat is not None and command.seat not in free:
        raise Refusal(Reason.SEAT_TAKEN, f"seat {command.seat} is taken", field="seat")
    if table.observer_of(command.person.player_id):
        draft.emit(events.ObserverLeft(command.person.player_id))
    draft.emit(events.SeatTaken(free[0] if command.seat is None else command.seat, command.person))
    proceed(draft)


def observe(draft: Draft, command: commands.Observe) -> None:
    """Lets a person watch one taken seat; a second call moves him. Raises TABLE_CLOSED, ALREADY_SEATED, NOT_FOUND."""
    table = draft.table
    require_open(table)
    if table.seat_of(command.person.player_id) is not None:
        raise Refusal(Reason.ALREADY_SEATED, "who plays at a table does not observe it")
    if table.seats[command.seat].person is None:
        raise Refusal(Reason.NOT_FOUND, f"nobody sits on seat {command.seat}", field="seat")
    known = table.observer_of(command.person.player_id)
    if known is None or known.seat != command.seat:
        draft.emit(events.ObserverJoined(command.person, command.seat))


def leave(draft: Draft, command: commands.Leave) -> None:
    """A player leaves freely, flees, or leaves once the ledger has answered; an observer stops observing."""
    table = draft.table
    number = table.seat_of(command.player_id)
    if number is None:
        if table.observer_of(command.player_id) is None:
            raise Refusal(Reason.NOT_A_PLAYER, "you are not at this table")
        draft.emit(events.ObserverLeft(command.player_id))
        return
    if table.seats[number].leaving:
        return
    if table.stage in (Stage.OPENING, Stage.SETTLING):
        draft.emit(events.LeaveAsked(number))
        return
    free_seat(draft, number)
    proceed(draft)


def set_base(draft: Draft, number: int, action: commands.SetBase) -> None:
    """Raises WRONG_PHASE when this seat is not asked, BASE_OUT_OF_BOUNDS outside of the room's bounds."""
    table = draft.table
    if not table.negotiated or table.base or table.base_setter != number:
        raise Illegal(Reason.WRONG_PHASE, "you are not asked to set the base")
    least, greatest = table.terms.base_min_chips, table.terms.base_max_chips
    if not least <= action.base_chips <= greatest:
        raise Illegal(
            Reason.BASE_OUT_OF_BOUNDS,
            f"the base of this room is from {least} to {greatest}",
            field="base_chips",
            least=least,
            greatest=greatest,
        )
    draft.emit(events.BaseSet(number, action.base_chips))
    proceed(draft)


def answer_base(draft: Draft, number: int, action: commands.AnswerBase) -> None:
    """Who disagrees leaves the table. Raises WRONG_PHASE when there is nothing to answer."""
    table = draft.table
    if not table.negotiated or not table.base or table.base_setter == number:
        raise Illegal(Reason.WRONG_PHASE, "you are not asked to agree to a base")
    if table.seats[number].agreed:
        raise Illegal(Reason.WRONG_PHASE, "you have agreed; who wants another base leaves the table")
    draft.emit(events.BaseAnswered(number, action.agree))
    if not action.agree:
        free_seat(draft, number, Reason.BASE_DISAGREED)
    proceed(draft)


def ready(draft: Draft, number: int, action: commands.Ready) -> None:
    """Raises WRONG_PHASE in books that start by themselves, and while a hand is played."""
    table = draft.table
    if not table.book.ready_to_start or table.stage not in (Stage.WAITING, Stage.COUNTDOWN):
        raise Illegal(Reason.WRONG_PHASE, "nobody is asked to be ready now")
    if table.seats[number].ready != action.ready:
        draft.emit(events.ReadySet(number, action.ready))
        proceed(draft)


def set_trustee(draft: Draft, number: int, action: commands.SetTrustee) -> None:
    """Turns the trustee on or off, at any time."""
    seat = draft.table.seats[number]
    if (seat.trustee is not None) != action.on:
        draft.emit(events.TrusteeSet(number, Trustee.CHOICE if action.on else None))


def allow_observers(draft: Draft, number: int, action: commands.AllowObservers) -> None:
    """Gives or takes back the leave to see the seat's cards (D-03)."""
    if draft.table.seats[number].observers_allowed != action.allow:
        draft.emit(events.CardsAllowed(number, action.allow))


def connect(draft: Draft, command: commands.Connect) -> None:
    """The person's newest stream; a seat that the trustee held because he was away is his again. Twice is once."""
    table = draft.table
    newest = {seat.connection for seat in table.seats} | {observer.connection for observer in table.observers}
    if command.connection in newest:
        return
    number = table.seat_of(command.player_id)
    if number is not None:
        draft.emit(events.PresenceSet(number, True, command.connection))
        if table.seats[number].trustee is Trustee.AWAY:
            draft.emit(events.TrusteeSet(number, None))
        go_on(draft)
    elif table.observer_of(command.player_id):
        draft.emit(events.ObserverPresenceSet(command.player_id, True, command.connection))


def disconnect(draft: Draft, command: commands.Disconnect) -> None:
    """Not a flee: the trustee takes the seat (D-05). The close of a stale stream changes nothing."""
    table = draft.table
    number = table.seat_of(command.player_id)
    observer = table.observer_of(command.player_id)
    if number is not None and table.seats[number].connection == command.connection:
        draft.emit(events.PresenceSet(number, False, command.connection))
        if table.seats[number].trustee is None:
            draft.emit(events.TrusteeSet(number, Trustee.AWAY))
    elif observer is not None and observer.connection == command.connection:
        draft.emit(events.ObserverPresenceSet(command.player_id, False, command.connection))


def free_seat(draft: Draft, number: int, reason: str = "", minimum_chips: int = 0) -> None:
    """Empties a seat outside of hands; who is below a minimum is told it. A setter takes his base with him."""
    table = draft.table
    seat = table.seats[number]
    assert seat.person is not None, "an empty seat cannot be left"
    balance = (seat.balance or 0) if minimum_chips else 0
    draft.emit(events.SeatLeft(number, seat.person.player_id, reason, minimum_chips, balance))
    if table.negotiated and table.base and table.base_setter == number:
        draft.emit(events.BaseReset())


def absent(table: Table) -> list[int]:
    """Who is not taken into a further hand: who has been away, the trustee playing for him, since before the last one
    was over; and where the trustee plays for all three, everybody who has not chosen so.
    """
    deserted = all(seat.trustee is not None for seat in table.seats)
    found = []
    for number in table.seated:
        seat = table.seats[number]
        away = not seat.connection and seat.absent_at_ms <= table.since_ms
        if seat.trustee is not None and (away or (deserted and seat.trustee is not Trustee.CHOICE)):
            found.append(number)
    return found


def free_absent(draft: Draft) -> None:
    """Frees the seats of those who are absent."""
    for number in absent(draft.table):
        free_seat(draft, number, Reason.TIMED_OUT)


def proceed(draft: Draft) -> None:
    """What follows by itself outside of hands: somebody is asked for the base, a hand starts, a match ends."""
    table = draft.table
    if table.stage not in (Stage.WAITING, Stage.COUNTDOWN):
        return
    seated = table.seated
    if table.terms.matched and len(seated) < len(SEATS) and table.hand_number:
        draft.emit(events.Closed("short"))
        return
    if table.negotiated and not table.base and table.base_setter is None and seated:
        draft.emit(events.BaseAsked(seated[draft.draw % len(seated)]))
    elif table.stage is Stage.WAITING and may_start(draft):
        start(draft)


def go_on(draft: Draft) -> None:
    """What was held back by maintenance follows once everybody is there: all may be on their way from a node that has
    ended, and trustees would play a hand without them, and lose them their seats after it.
    """
    if all(draft.table.seats[number].connection for number in draft.table.seated):
        proceed(draft)


def may_start(draft: Draft) -> bool:
    """Whether the system is open, three are seated, and each has done what the book asks of him before a hand."""
    table = draft.table
    if draft.closed or len(table.seated) < len(SEATS) or any(seat.leaving for seat in table.seats):
        return False
    if table.negotiated and not (table.base and all(seat.agreed for seat in table.seats)):
        return False
    return not table.book.ready_to_start or all(seat.ready for seat in table.seats)


def start(draft: Draft) -> None:
    """Asks for the next hand; the ledger has the last word on who may play it."""
    table = draft.table
    draft.emit(events.HandOpening(f"{table.table_id}-{table.hand_number + 1}", table.base, table.redeals))


def require_open(table: Table) -> None:
    """Raises TABLE_CLOSED."""
    if table.phase is Phase.CLOSED:
        raise Refusal(Reason.TABLE_CLOSED, "the table is closed")
