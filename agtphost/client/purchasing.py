"""
Buying from a merchant: its identity is verified before PURCHASE goes out (core v08 section 9).

The counterparty is verified from its Identity Document, fetched anew: it is
the agent the URI names, has the role ``merchant``, is active, and what its
registrar signed. The fingerprint of that document goes with the purchase, so
that the merchant's host refuses it, 458, if the document is no longer the one
that was verified. A 458 is never answered by sending the same again: what was
verified then counts for nothing, and has to be verified anew.

A procedure yields what is to be asked, and is sent the answer; both clients
carry it out in their own way, so that the rules are here once.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol, Unpack

from agtphost.client.caller import CallOptions
from agtphost.client.errors import InvalidCall, VerificationFailed
from agtphost.client.reply import Reply
from agtphost.client.requests import parse_uri
from agtphost.client.terminal import escape
from agtphost.identity import documents
from agtphost.identity.canonical import CanonicalError, canonical
from agtphost.identity.documents import DocumentError
from agtphost.identity.keys import VerifyingKey
from agtphost.vocabulary.status import Status
from agtphost.vocabulary.uris import AgtpUri

METHOD = "PURCHASE"

OWN_FIELDS = frozenset({"merchant-id", "merchant-manifest-fingerprint", "intent-assertion", "cart-digest"})
"""Fields that are written from what was verified, and from nothing else."""

MOST_REFUSED = 1_024
"""Verifications remembered as worthless; beyond that the oldest is forgotten."""


class CounterpartyUnverified(VerificationFailed):
    """The other side is no merchant to buy from; no PURCHASE was sent."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Counterparty:
    """A merchant as it was verified, once."""

    uri: AgtpUri
    merchant_id: str
    fingerprint: str
    """SHA-256 of its canonical Identity Document, hex."""

    document: Mapping[str, Any]
    signer: VerifyingKey | None
    """Who signed the document; None where nobody did."""


def verified(
    uri: str | AgtpUri, reply: Reply, *, registrars: Collection[VerifyingKey] = (), merchant_id: str | None = None
) -> Counterparty:
    """
    Verify a merchant.

    :param reply: its host's answer to a resolution of ``uri``.
    :param registrars: who may have signed its document; without any a signature has to hold, and may be missing.
    :param merchant_id: the Agent-ID that the buyer expects; None: the one in ``uri``, or any.
    :raises CounterpartyUnverified: if it is none to buy from.
    """
    target = parse_uri(uri)
    if not reply.ok:
        raise _unverified(f"its host answered {reply.status} {escape(reply.reason)}".rstrip())
    document = reply.document
    try:
        signer = documents.check_signature(document)
        faults = documents.faults_of(document)
        fingerprint = sha256(canonical(document)).hexdigest()
    except (DocumentError, CanonicalError) as error:
        raise _unverified(f"its Identity Document cannot be believed: {escape(str(error))}") from None
    if faults:
        raise _unverified(f"it has no sound Identity Document: {escape(faults[0])}")
    for expected in (merchant_id, target.agent_id):
        if expected is not None and document["agent_id"] != expected:
            raise _unverified("its Identity Document is another agent's")
    if documents.role_of(document) != "merchant":
        raise _unverified("its Identity Document does not have the role merchant")
    if documents.status_of(document) != "active":
        raise _unverified(f"it is {documents.status_of(document)}")
    if registrars and signer not in registrars:
        raise _unverified("no registrar that this client trusts signed its Identity Document")
    return Counterparty(
        uri=target, merchant_id=document["agent_id"], fingerprint=fingerprint, document=document, signer=signer
    )


def _unverified(why: str) -> CounterpartyUnverified:
    return CounterpartyUnverified(
        f"The counterparty is no merchant to buy from: {why}.", "Nothing was bought; address another merchant."
    )


class Verifications:
    """
    What this side verified, and may still rely on.

    :param registrars: see :func:`verified`.
    """

    def __init__(self, registrars: Collection[VerifyingKey] = ()) -> None:
        self._registrars = tuple(registrars)
        self._worthless: dict[tuple[str, str], None] = {}

    def verify(self, uri: str | AgtpUri, reply: Reply, merchant_id: str | None = None) -> Counterparty:
        """See :func:`verified`; a document verified anew can be relied on again."""
        found = verified(uri, reply, registrars=self._registrars, merchant_id=merchant_id)
        self._worthless.pop((found.merchant_id, found.fingerprint), None)
        return found

    def require(self, counterparty: Counterparty) -> None:
        """
        :raises CounterpartyUnverified: if it was refused with 458 and not verified again since.
        """
        if (counterparty.merchant_id, counterparty.fingerprint) in self._worthless:
            raise CounterpartyUnverified(
                "The merchant's host refused what was verified of it, 458.",
                "Verify the merchant again before buying from it (core v08 section 9).",
            )

    def note(self, counterparty: Counterparty, reply: Reply) -> Reply:
        """Remember a refusal; returns the reply."""
        if reply.status == Status.COUNTERPARTY_UNVERIFIED:
            self._worthless[counterparty.merchant_id, counterparty.fingerprint] = None
            while len(self._worthless) > MOST_REFUSED:
                del self._worthless[next(iter(self._worthless))]
        return reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolve:
    """Asks for the Identity Document at a URI."""

    uri: AgtpUri


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Asks for the PURCHASE itself."""

    uri: AgtpUri
    path: str
    input: Mapping[str, Any]
    options: CallOptions


Step = Generator[Resolve | Send, Reply, Reply]


def purchase(
    verifications: Verifications,
    uri: str | AgtpUri,
    path: str,
    input: Mapping[str, Any],
    *,
    counterparty: Counterparty | None,
    intent_assertion: str | None,
    cart_digest: str | None,
    options: CallOptions,
) -> Step:
    """The procedure of one purchase: verify, unless the caller just did, and send."""
    given = [name for name, _ in options.get("headers", ()) if name.lower() in OWN_FIELDS]
    if given:
        raise InvalidCall(f"The header {given[0]} is written from what is verified.", "Leave it out.")
    target = parse_uri(uri)
    if counterparty is None:
        counterparty = verifications.verify(target, (yield Resolve(uri=target)))
    elif counterparty.uri != target:
        raise InvalidCall("What was verified is another URI's merchant.", "Verify this one.")
    verifications.require(counterparty)
    fields = [
        ("Merchant-ID", counterparty.merchant_id),
        ("Merchant-Manifest-Fingerprint", counterparty.fingerprint),
        ("Intent-Assertion", intent_assertion),
        ("Cart-Digest", cart_digest),
    ]
    sent: CallOptions = {
        **options,
        "headers": [*options.get("headers", ()), *((name, value) for name, value in fields if value is not None)],
    }
    reply = yield Send(uri=target, path=path, input=input, options=sent)
    return verifications.note(counterparty, reply)


# Carrying it out


class BlockingCalls(Protocol):
    """What of :class:`agtphost.client.sync.Client` is needed."""

    def resolve(self, uri: str | AgtpUri, format: str | None = None) -> Reply: ...

    def call(
        self,
        uri: str | AgtpUri,
        method: str,
        path: str = "/",
        input: Mapping[str, Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> Reply: ...


class Buyer:
    """
    Buys with the blocking client.

    :param client: makes the calls, as its own agent.
    :param registrars: keys that merchants' documents have to be signed with; without any, a signature may be missing.
    """

    def __init__(self, client: BlockingCalls, registrars: Collection[VerifyingKey] = ()) -> None:
        self._client = client
        self._verifications = Verifications(registrars)

    def verify(self, uri: str | AgtpUri, merchant_id: str | None = None) -> Counterparty:
        """
        Fetch and verify a merchant's Identity Document.

        :param merchant_id: the Agent-ID it has to have.
        :raises CounterpartyUnverified: if it is none to buy from.
        """
        return self._verifications.verify(uri, self._client.resolve(uri), merchant_id)

    def purchase(
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
        :return: the reply, whatever its status; after a 458 the merchant has to be verified again.
        :raises CounterpartyUnverified: if it is no merchant to buy from: then no PURCHASE was sent.
        """
        steps = purchase(
            self._verifications,
            uri,
            path,
            input,
            counterparty=counterparty,
            intent_assertion=intent_assertion,
            cart_digest=cart_digest,
            options=options,
        )
        asked = next(steps)
        while True:
            reply = (
                self._client.resolve(asked.uri)
                if isinstance(asked, Resolve)
                else self._client.call(asked.uri, METHOD, asked.path, asked.input, **asked.options)
            )
            try:
                asked = steps.send(reply)
            except StopIteration as ended:
                return _reply(ended.value)


class AsyncCalls(Protocol):
    """What of :class:`agtphost.client.Client` is needed."""

    async def resolve(self, uri: str | AgtpUri, format: str | None = None) -> Reply: ...

    async def call(
        self,
        uri: str | AgtpUri,
        method: str,
        path: str = "/",
        input: Mapping[str, Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> Reply: ...


class AsyncBuyer:
    """Buys with the Twisted client; see :class:`Buyer`."""

    def __init__(self, client: AsyncCalls, registrars: Collection[VerifyingKey] = ()) -> None:
        self._client = client
        self._verifications = Verifications(registrars)

    async def verify(self, uri: str | AgtpUri, merchant_id: str | None = None) -> Counterparty:
        """See :meth:`Buyer.verify`."""
        return self._verifications.verify(uri, await self._client.resolve(uri), merchant_id)

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
        """See :meth:`Buyer.purchase`."""
        steps = purchase(
            self._verifications,
            uri,
            path,
            input,
            counterparty=counterparty,
            intent_assertion=intent_assertion,
            cart_digest=cart_digest,
            options=options,
        )
        asked = next(steps)
        while True:
            if isinstance(asked, Resolve):
                reply = await self._client.resolve(asked.uri)
            else:
                reply = await self._client.call(asked.uri, METHOD, asked.path, asked.input, **asked.options)
            try:
                asked = steps.send(reply)
            except StopIteration as ended:
                return _reply(ended.value)


def _reply(value: Any) -> Reply:
    assert isinstance(value, Reply), "a purchase ends with a reply"
    return value
