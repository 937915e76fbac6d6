"""Let a browser enter with its own certificate: the page requests a link as ``agtp page`` does."""

from __future__ import annotations

from agtphost.iagtp import IDispatcher
from agtphost.page.asking import Asker
from agtphost.page.browsers import Shown
from agtphost.page.entrance import Entrance, NoEntry, Session

ASKED = {"subject": "self", "resource": "/page", "scope": "page:enter"}
"""The request that ``agtp page`` makes."""


async def by_certificate(
    entrance: Entrance, dispatcher: IDispatcher, shown: Shown | None, address: str
) -> tuple[str, Session]:
    """
    Open a session for the operator whom a certificate represents; the host grants it, on record.

    :param shown: the certificate that the browser has presented; None without one.
    :return: see :meth:`agtphost.page.entrance.Entrance.enter`.
    :raises NoEntry: it represents no operator, or the host grants it nothing, for instance after its expiry.
    """
    if shown is None or shown.certificate is None:
        raise entrance.refuse(address, 403, "This browser shows no certificate." if shown is None else shown.why)
    # Counted by certificate: wrong attempts of others at the same address do not affect a good one.
    if entrance.is_crowded(shown.digest):
        raise NoEntry(429, "This certificate was refused too often; try again in a minute.")
    # A session that is not stored: it only serves to ask for a link.
    stranger = Session(certificate=shown.certificate, csrf="", seen=0.0, browser=shown.digest)
    reply = await Asker(dispatcher, stranger, address).ask("AUTHORIZE", "/page", ASKED)
    if not reply.ok:
        raise entrance.refuse(shown.digest, reply.status, f"{reply.explanation or reply.reason} {reply.remedy}".strip())
    return entrance.enter(str(reply.result.get("url", "")), address, shown.digest)
