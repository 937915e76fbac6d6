"""
Buying from a merchant: its identity is verified before PURCHASE goes out (core v08 section 9).

The counterparty is verified from its Identity Document, fetched anew: it is the agent the URI names, has the role
``merchant``, is active, and what its registrar signed. The fingerprint of that document goes with the purchase, so that
the merchant's host refuses it, 458, if the document differs from the one that was verified. A 458 is never answered by
sending the same again: the merchant has to be verified anew.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Unpack

from agtphost.client.call_flow import Calls
from agtphost.client.caller import CallOptions
from agtphost.client.errors import InvalidCall, VerificationFailed
from agtphost.client.reply import Reply
from agtphost.client.requests import parse_uri
from agtphost.client.terminal import escape
from agtphost.identity import documents
from agtphost.identity.canonical import CanonicalError, canonical
from agtphost.identity.documents import DocumentError
from agtphost.identity.keys import VerifyingKey
from agtphost.vocabulary.lru import keep
from agtphost.vocabulary.status import Status
from agtphost.vocabulary.uris import AgtpUri

METHOD = "PURCHASE"

OWN_FIELDS = frozenset({"merchant-id", "merchant-manifest-fingerprint", "intent-assertion", "cart-digest"})
"""Fields that are written from what was verified, and from nothing else."""

MOST_REFUSED = 1_024
"""Verifications remembered as worthless; beyond that the oldest is forgotten."""


class CounterpartyUnverified(VerificationFailed):
    """The other side is not a verified merchant; no PURCHASE was sent."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Counterparty:
    """A merchant as it was verified, once."""

    uri: AgtpUri
    merchant_id: str
    fingerprint: str
    """SHA-256 of its canonical Identity Document, hex."""

    document: Mapping[str, Any]
    signer: VerifyingKey | None
    """The key that signed the document; None if it is not signed."""


def verify_merchant(
    uri: str | AgtpUri, reply: Reply, *, registrars: Collection[VerifyingKey] = (), merchant_id: str | None = None
) -> Counterparty:
    """
    Verify a merchant.

    :param reply: its host's answer to a resolution of ``uri``.
    :param registrars: who may have signed its document; without any a signature has to hold, and may be missing.
    :param merchant_id: the Agent-ID that the buyer expects; None: the one in ``uri``, or any.
    :raises CounterpartyUnverified: if it is not a verified merchant.
    """
    target = parse_uri(uri)
    if not reply.ok:
        raise _refuse(f"its host answered {reply.status} {escape(reply.reason)}".rstrip())
    document = reply.document
    try:
        signer = documents.check_signature(document)
        faults = documents.faults_of(document)
        fingerprint = sha256(canonical(document)).hexdigest()
    except (DocumentError, CanonicalError) as error:
        raise _refuse(f"its Identity Document does not verify: {escape(str(error))}") from None
    if faults:
        raise _refuse(f"it has no sound Identity Document: {escape(faults[0])}")
    for expected in (merchant_id, target.agent_id):
        if expected is not None and document["agent_id"] != expected:
            raise _refuse("its Identity Document is another agent's")
    if documents.role_of(document) != "merchant":
        raise _refuse("its Identity Document does not have the role merchant")
    if documents.status_of(document) != "active":
        raise _refuse(f"it is {documents.status_of(document)}")
    if registrars and signer not in registrars:
        raise _refuse("no registrar that this client trusts signed its Identity Document")
    return Counterparty(
        uri=target, merchant_id=document["agent_id"], fingerprint=fingerprint, document=document, signer=signer
    )


def _refuse(why: str) -> CounterpartyUnverified:
    return CounterpartyUnverified(
        f"The counterparty is not a verified merchant: {why}.", "Nothing was bought; address another merchant."
    )


class Buyer:
    """
    Buys from merchants that it verified; :class:`agtphost.client.sync.Buyer` is the same for scripts.

    :param client: makes the calls, as its own agent.
    :param registrars: keys that merchants' documents have to be signed with; without any, a signature may be missing.
    """

    def __init__(self, client: Calls[Any], registrars: Collection[VerifyingKey] = ()) -> None:
        self._client = client
        self._registrars = tuple(registrars)
        self._worthless: OrderedDict[tuple[str, str], None] = OrderedDict()

    async def verify(self, uri: str | AgtpUri, merchant_id: str | None = None) -> Counterparty:
        """
        Fetch and verify a merchant's Identity Document; verified anew, it can be relied on again.

        :param merchant_id: the Agent-ID it has to have.
        :raises CounterpartyUnverified: if it is none to buy from.
        """
        reply = await self._client.resolve(uri)
        found = verify_merchant(uri, reply, registrars=self._registrars, merchant_id=merchant_id)
        self._worthless.pop((found.merchant_id, found.fingerprint), None)
        return found

    async def purchase(
        self,
        uri: str | AgtpUri,
        path: str,
        input: Mapping[str, Any],
        *,
        counterparty: Counterparty | None = None,
        intent_assertion: str | None = None,
        cart_digest: str | None = None,
        **options: Unpack[CallOptions],
    ) -> Reply:
        """
        Verify the merchant, and buy.

        :param uri: the merchant: ``agtp://AGENT-ID@HOST`` or ``agtp://DOMAIN/agents/NAME``.
        :param input: ``item`` or ``cart_quote_id``, ``principal_id``, ``amount`` and what the endpoint wants besides.
        :param counterparty: verified just before by :meth:`verify`; None verifies now.
        :param intent_assertion: the JWT of the platform that governs this agent.
        :param cart_digest: of a cart that the merchant quoted.
        :return: the reply, with any status; after a 458 the merchant has to be verified again.
        :raises CounterpartyUnverified: if it is not a verified merchant: then no PURCHASE was sent.
        """
        given = [name for name, _ in options.get("headers", ()) if name.lower() in OWN_FIELDS]
        if given:
            raise InvalidCall(f"The header {given[0]} is written from what is verified.", "Leave it out.")
        target = parse_uri(uri)
        if counterparty is None:
            counterparty = await self.verify(target)
        elif counterparty.uri != target:
            raise InvalidCall("What was verified is another URI's merchant.", "Verify this one.")
        relied_on = (counterparty.merchant_id, counterparty.fingerprint)
        if relied_on in self._worthless:
            raise CounterpartyUnverified(
                "The merchant's host refused what was verified of it, 458.",
                "Verify the merchant again before buying from it (core v08 section 9).",
            )
        fields = [
            ("Merchant-ID", counterparty.merchant_id),
            ("Merchant-Manifest-Fingerprint", counterparty.fingerprint),
            ("Intent-Assertion", intent_assertion),
            ("Cart-Digest", cart_digest),
        ]
        headers = [*options.get("headers", ()), *((name, value) for name, value in fields if value is not None)]
        sent: CallOptions = {**options, "headers": headers}
        reply = await self._client.call(target, METHOD, path, input, **sent)
        if reply.status == Status.COUNTERPARTY_UNVERIFIED:
            keep(self._worthless, relied_on, None, MOST_REFUSED)
        return reply
