"""Let a browser enter with its own certificate: the page requests a link as ``agtp page`` does."""

from __future__ import annotations

from agtphost.iagtp import IDispatcher
from agtphost.page.browser_certificates import BrowserCertificate
from agtphost.page.entrance import Entrance, EntryRefused, PageSession
from agtphost.page.person_client import PersonClient

LINK_REQUEST = {"subject": "self", "resource": "/page", "scope": "page:enter"}
"""The request that ``agtp page`` makes."""


async def enter_by_certificate(
    entrance: Entrance, dispatcher: IDispatcher, shown: BrowserCertificate | None, address: str
) -> tuple[str, PageSession]:
    """
    Open a session for the operator whom a certificate represents; the host grants it, on record.

    :param shown: the certificate that the browser has presented; None without one.
    :return: see :meth:`agtphost.page.entrance.Entrance.enter`.
    :raises EntryRefused: it represents no operator, or the host grants it nothing, for instance after its expiry.
    """
    if shown is None or shown.certificate is None:
        raise entrance.refuse(address, 403, "This browser shows no certificate." if shown is None else shown.refusal)
    # Counted by certificate: wrong attempts of others at the same address do not affect a good one.
    if entrance.is_crowded(shown.digest):
        raise EntryRefused(429, "This certificate was refused too often; try again in a minute.")
    # A session that is not stored: it only serves to ask for a link.
    stranger = PageSession(certificate=shown.certificate, csrf="", last_used=0.0, browser=shown.digest)
    reply = await PersonClient(dispatcher, stranger, address).ask("AUTHORIZE", "/page", LINK_REQUEST)
    if not reply.ok:
        raise entrance.refuse(shown.digest, reply.status, f"{reply.explanation or reply.reason} {reply.remedy}".strip())
    return entrance.enter(str(reply.result.get("url", "")), address, shown.digest)
