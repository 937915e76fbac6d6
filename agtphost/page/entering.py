"""Entering with a browser's own certificate: the same way in as ``agtp page``, asked for by the page."""

from __future__ import annotations

from agtphost.iagtp import IDispatcher
from agtphost.page.asking import Asker
from agtphost.page.browsers import Shown
from agtphost.page.entrance import Entrance, NoEntry, Session

ASKED = {"subject": "self", "resource": "/page", "scope": "page:enter"}
"""What ``agtp page`` asks for."""


async def by_certificate(
    entrance: Entrance, dispatcher: IDispatcher, shown: Shown | None, address: str
) -> tuple[str, Session]:
    """
    Open a session for whom a certificate stands; the host grants it, and that is on record.

    :param shown: what the browser has shown; None where nothing.
    :return: see :meth:`agtphost.page.entrance.Entrance.enter`.
    :raises NoEntry: it stands for nobody, or the host grants it nothing, such as after its end.
    """
    if shown is None or shown.certificate is None:
        raise entrance.refuse(address, 403, "This browser shows no certificate." if shown is None else shown.why)
    # Counted by the certificate: what others at the same address send wrong keeps no good one out.
    if entrance.is_crowded(shown.digest):
        raise NoEntry(429, "This certificate was refused too often; try again in a minute.")
    # Nobody's session yet: as far as it takes to ask for a link.
    stranger = Session(certificate=shown.certificate, csrf="", seen=0.0, browser=shown.digest)
    reply = await Asker(dispatcher, stranger, address).ask("AUTHORIZE", "/page", ASKED)
    if not reply.ok:
        raise entrance.refuse(shown.digest, reply.status, f"{reply.explanation or reply.reason} {reply.remedy}".strip())
    return entrance.enter(str(reply.result.get("url", "")), address, shown.digest)
