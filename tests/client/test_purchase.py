"""The buyer's side of PURCHASE: AGTP-297, AGTP-298, AGTP-302."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import pytest_twisted

from agtphost.client import Buyer, Counterparty, CounterpartyUnverified, InvalidCall, Reply, sync
from agtphost.identity import documents
from agtphost.identity.canonical import canonical
from agtphost.identity.keys import SigningKey, VerifyingKey
from agtphost.vocabulary import jsontext
from agtphost.wire import Headers, Response
from tests.client.credentials import Credentials
from tests.client.drivers import BlockingDriver, Driver
from tests.client.scripted_host import Exchange, ScriptedHost, answer, refuse
from tests.identity.samples import document, key_of

NewClient = Callable[..., Driver]
SHOP = "0123456789abcdef" * 4
REGISTRAR = key_of("purchasing registrar")
STRANGER = key_of("purchasing stranger")
GOODS = {"item": "tea", "principal_id": "alice", "amount": "20.00 EUR"}


def manifest(key: SigningKey = REGISTRAR, **changes: Any) -> dict[str, Any]:
    """A signed Identity Document of a merchant."""
    return documents.sign(document(**{"agent_id": SHOP, "role": "merchant", **changes}), "registrar", key)


def shop(served: Any, purchase: Response | None = None) -> Callable[[Exchange], None]:
    """A host with that document, and one answer to every PURCHASE."""

    def script(exchange: Exchange) -> None:
        if exchange.request.method == "PURCHASE":
            exchange.send(purchase or answer({"sold": 1}))
        else:
            body = jsontext.encode(served)
            exchange.send(Response(status=200, headers=Headers([("Content-Type", "application/json")]), body=body))

    return script


def bought(host: ScriptedHost) -> list[Any]:
    return [request for request in host.requests if request.method == "PURCHASE"]


def at(host: ScriptedHost) -> str:
    return host.uri.replace("agtp://", f"agtp://{SHOP}@")


class BlockingBuyer:
    """The blocking buyer, each call in a thread."""

    def __init__(self, buyer: sync.Buyer) -> None:
        self._buyer = buyer

    async def verify(self, *arguments: Any) -> Counterparty:
        from twisted.internet.threads import deferToThread

        return await deferToThread(self._buyer.verify, *arguments)

    async def purchase(self, *arguments: Any, **options: Any) -> Reply:
        from twisted.internet.threads import deferToThread

        return await deferToThread(self._buyer.purchase, *arguments, **options)


def buyer_of(client: Any, *registrars: VerifyingKey) -> Any:
    """The buyer that belongs to a client."""
    if isinstance(client, BlockingDriver):
        return BlockingBuyer(sync.Buyer(client._client, registrars))
    return Buyer(client, registrars)


@pytest_twisted.ensureDeferred
async def test_a_purchase_says_what_was_verified(credentials: Credentials, new_client: NewClient) -> None:
    """AGTP-298, AGTP-302: the document is fetched first; its fingerprint, the assertion and the cart go along."""
    from hashlib import sha256

    served = manifest()
    with ScriptedHost(credentials, shop(served)) as host:
        async with new_client() as client:
            buyer = buyer_of(client, REGISTRAR.public)
            reply = await buyer.purchase(
                at(host),
                "/goods",
                GOODS,
                intent_assertion="a.b.c",
                cart_digest="sha256:" + "0" * 64,
                scopes="payments:*",
            )
    assert reply.ok
    assert [request.method for request in host.requests] == ["DESCRIBE", "PURCHASE"]
    headers = bought(host)[0].headers
    assert headers.get("merchant-id") == SHOP
    assert headers.get("merchant-manifest-fingerprint") == sha256(canonical(served)).hexdigest()
    assert headers.get("intent-assertion") == "a.b.c"
    assert headers.get("cart-digest") == "sha256:" + "0" * 64
    assert headers.get("authority-scope") == "payments:*"


UNBELIEVABLE: list[tuple[str, Any, str]] = [
    ("an agent", manifest(role="agent"), "role merchant"),
    ("no role", manifest(role=None), "role merchant"),
    ("an unknown role", manifest(role="emperor"), "role merchant"),
    ("suspended", manifest(status="suspended"), "suspended"),
    ("deprecated", manifest(status="deprecated"), "deprecated"),
    ("another registrar", manifest(STRANGER), "registrar"),
    ("unsigned", document(agent_id=SHOP, role="merchant"), "registrar"),
    ("role mutated", {**manifest(role="agent"), "role": "merchant"}, "does not verify"),
    ("name mutated", {**manifest(), "name": "other"}, "does not verify"),
    ("principal mutated", {**manifest(), "principal": "Evil Ltd"}, "does not verify"),
    ("key exchanged", {**manifest(), "manifest_issuer_public_key": STRANGER.public.text}, "does not verify"),
    ("signature cut", {**manifest(), "manifest_signature": "AAAA"}, "does not verify"),
    ("a member missing", document(agent_id=SHOP, role="merchant", principal=None), "sound"),
]


@pytest.mark.parametrize(("what", "served", "why"), UNBELIEVABLE, ids=[case[0] for case in UNBELIEVABLE])
@pytest_twisted.ensureDeferred
async def test_nothing_is_bought_from_who_is_no_merchant(
    credentials: Credentials, new_client: NewClient, what: str, served: Any, why: str
) -> None:
    """AGTP-302: whatever is wrong with the document, no PURCHASE is on the wire."""
    with ScriptedHost(credentials, shop(served)) as host:
        async with new_client() as client:
            with pytest.raises(CounterpartyUnverified, match=why):
                await buyer_of(client, REGISTRAR.public).purchase(at(host), "/goods", GOODS)
    assert not bought(host)


@pytest_twisted.ensureDeferred
async def test_another_agent_is_not_the_merchant(credentials: Credentials, new_client: NewClient) -> None:
    """Neither the one of the URI nor the one the buyer expects may be exchanged."""
    from agtphost.client import VerificationFailed

    with ScriptedHost(credentials, shop(manifest(agent_id="f" * 64))) as host:
        async with new_client() as client:
            buyer = buyer_of(client)
            with pytest.raises(VerificationFailed):
                await buyer.purchase(at(host), "/goods", GOODS)
            with pytest.raises(CounterpartyUnverified, match="another agent"):
                await buyer.verify(host.uri, SHOP)
    assert not bought(host)


@pytest_twisted.ensureDeferred
async def test_a_458_is_not_sent_again(credentials: Credentials, new_client: NewClient) -> None:
    """AGTP-297: one call, also with retries allowed; what was verified is worth nothing until verified anew."""
    answers = refuse(458, "merchant-manifest-fingerprint-mismatch", retryable=True)
    with ScriptedHost(credentials, shop(manifest(), answers)) as host:
        async with new_client(retries=3) as client:
            buyer = buyer_of(client)
            counterparty = await buyer.verify(at(host))
            for expected in (1, 1):
                if expected == len(bought(host)):
                    with pytest.raises(CounterpartyUnverified, match="again"):
                        await buyer.purchase(at(host), "/goods", GOODS, counterparty=counterparty)
                else:
                    reply = await buyer.purchase(
                        at(host), "/goods", GOODS, counterparty=counterparty, idempotency_key="k"
                    )
                    assert reply.status == 458
            assert len(bought(host)) == 1
            asked = len(host.requests)
            assert (await buyer.purchase(at(host), "/goods", GOODS)).status == 458
            assert [request.method for request in host.requests[asked:]] == ["DESCRIBE", "PURCHASE"]


@pytest_twisted.ensureDeferred
async def test_what_is_verified_is_not_written_by_hand(credentials: Credentials, new_client: NewClient) -> None:
    """Own headers, and the verification of another URI, are refused before anything is sent."""
    with ScriptedHost(credentials, shop(manifest())) as host:
        async with new_client() as client:
            buyer = buyer_of(client)
            counterparty = await buyer.verify(at(host))
            for name in ("Merchant-ID", "merchant-manifest-fingerprint", "Intent-Assertion", "Cart-Digest"):
                with pytest.raises(InvalidCall, match="written from"):
                    await buyer.purchase(at(host), "/goods", GOODS, headers=[(name, "x")])
            with pytest.raises(InvalidCall, match="another URI"):
                await buyer.purchase("agtp://other.example", "/goods", GOODS, counterparty=counterparty)
    assert not bought(host)
