"""BOOK /room: an action that cannot be taken back, with two ways to fail."""

from __future__ import annotations

import hashlib
from datetime import date

from agtphost import EndpointContext, EndpointError

ROOMS = {"garden": 2, "attic": 1, "library": 4}
"""Rooms, and for how many guests each is."""

_taken: dict[str, list[tuple[date, date, str]]] = {}


def book(ctx: EndpointContext) -> dict[str, object]:
    """Book a room from the day of arrival to the day of departure, for whoever calls."""
    room, guests = ctx.input["room"], ctx.input.get("guests", 1)
    arrival, departure = (date.fromisoformat(ctx.input[name]) for name in ("arrival", "departure"))
    if departure <= arrival:
        raise EndpointError("invalid_dates", {"arrival": str(arrival), "departure": str(departure)})
    stays = _taken.setdefault(room, [])
    if guests > ROOMS[room] or any(arrival < until and since < departure for since, until, _ in stays):
        raise EndpointError("room_unavailable", {"room": room})
    guest = ctx.caller.agent_id if ctx.caller is not None else ""
    stays.append((arrival, departure, guest))
    reservation = hashlib.sha256(f"{room} {arrival} {departure} {guest}".encode()).hexdigest()[:16]
    return {"reservation_id": reservation, "nights": (departure - arrival).days}
