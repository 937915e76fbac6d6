"""
A purchase over TLS: a buyer with its certificate, a hosted merchant, a governance platform (core v08 section 9).

One host serves the whole story, and is started again at its end; the tests run in the order they stand in.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agtphost.client import CounterpartyUnverified
from agtphost.client.sync import Buyer, Client
from agtphost.identity import documents, jws, provisioning
from agtphost.identity.canonical import canonical
from agtphost.identity.encoding import decode
from agtphost.identity.keys import SigningKey, VerifyingKey
from agtphost.vocabulary import budget
from tests.dispatch.purchase_hosts import CART, KEY, PLATFORM, PUBLIC, claims, signed
from tests.docs.test_commands import ROOT, blocks
from tests.system.hosting import Host, running, sample, until

ENDPOINTS = """
[[endpoint]]
method = "PURCHASE"
path = "/goods"
description = "Sells tea and cups."
errors = ["sold_out"]
agents = ["shop"]
cost = "calls=1"
handler = { type = "registered_function", function = "handlers.shop.sell" }
semantic.intent = "Buy goods."
semantic.actor = "agent"
semantic.outcome = "The goods are the buyer's."
semantic.capability = "transaction"
semantic.confidence = 0.9
semantic.impact = "irreversible"
semantic.is_idempotent = false
input_schema.type = "object"
input_schema.additionalProperties = false
input_schema.properties = { item = {}, cart_quote_id = {}, cart = {}, principal_id = {}, amount = {} }
output_schema = { type = "object" }

[[endpoint]]
method = "QUOTE"
path = "/cart"
description = "Says what a cart comes to."
errors = ["not_on_offer"]
agents = ["shop"]
handler = { type = "registered_function", function = "handlers.shop.offer" }
semantic.intent = "Ask for a price."
semantic.actor = "agent"
semantic.outcome = "The buyer knows the price."
semantic.capability = "discovery"
semantic.confidence = 0.9
semantic.impact = "informational"
semantic.is_idempotent = true
input_schema.type = "object"
input_schema.additionalProperties = false
input_schema.properties = { cart = {} }
output_schema = { type = "object" }
"""

HANDLERS = """
from agtphost import EndpointContext, EndpointError

PRICES = {"tea": "4.50", "cup": "7.00"}
sold = []


def sell(context: EndpointContext):
    sold.append(context.input)
    return {"sold": len(sold)}


def offer(context: EndpointContext):
    for line in context.input.get("cart", {}).get("lines", []):
        if PRICES.get(line["sku"]) != line["unit_price"]:
            raise EndpointError("not_on_offer", {"sku": line["sku"]})
    return {}
"""

SHOP = {
    "name": "shop",
    "description": "Sells tea and cups.",
    "principal": "Tea Ltd",
    "owner_id": "development",
    "role": "merchant",
    "scopes_accepted": [],
    "capabilities": ["tea"],
    "legal_entity_name": "Tea Limited",
}

SETTINGS = f"""
[merchant]
quote_seconds = 600

[[merchant.platform]]
issuer = "{PLATFORM}"
jwks = "platform.json"
"""


@dataclass
class Story:
    """The host, and what the tests leave for each other."""

    host: Host
    config: Path
    buyer_id: str
    kept: dict[str, Any] = field(default_factory=dict)

    @property
    def shop(self) -> str:
        return self.uri_of("shop")

    def uri_of(self, name: str) -> str:
        """The URI of a hosted agent, by its Agent-ID."""
        agent_id = json.loads((self.state / f"hosted/{name}/document.json").read_text())["agent_id"]
        return f"agtp://{agent_id}@127.0.0.1:{self.host.port}"

    @property
    def state(self) -> Path:
        return self.host.state

    def client(self, name: str = "buyer") -> Client:
        folder = self.state / "agents" / name
        return Client(trust=self.state / "ca.pem", cert=folder / "agent.pem", key=folder / "agent.key")

    def shop_id(self) -> str:
        return str(json.loads((self.state / "hosted/shop/document.json").read_text())["agent_id"])

    def assertion(self, **changes: Any) -> str:
        return signed(claims(self.shop_id(), agent_id=self.buyer_id, **changes), KEY)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    config = sample(tmp_path_factory.mktemp("merchant"), append=SETTINGS)
    folder = config.parent
    (folder / "endpoints" / "shop.toml").write_text(ENDPOINTS)
    (folder / "handlers" / "shop.py").write_text(HANDLERS)
    (folder / "agents" / "shop.agent.json").write_text(json.dumps(SHOP))
    (folder / "platform.json").write_bytes(PUBLIC)
    state = folder / "state"
    provisioning.provision_development(state, server_id="localhost", hosted=())
    authority = provisioning._authority(state, datetime.now(UTC))
    description = provisioning.AgentDescription(
        name="buyer", scopes=("payments:purchase", "documents:query"), owner_id="development"
    )
    buyer = provisioning.issue_agent(
        state / "agents" / "buyer",
        description,
        SigningKey.load(state / "registrar.key"),
        issuer="registrar.localhost",
        authority=authority,
    )
    with running(config) as host:
        yield Story(host, config, buyer.agent_id)


def goods(**changes: Any) -> dict[str, Any]:
    given = {"item": "tea", "principal_id": "alice", "amount": {"value": "20.00", "currency": "EUR"}, **changes}
    return {name: value for name, value in given.items() if value is not None}


def record_of(reply: Any) -> dict[str, Any]:
    return dict(jws.parse_unverified(reply.record))


def test_merchants_are_found_with_their_manifests(story: Story) -> None:
    """AGTP-301: ``merchant`` gives the one, ``any`` both, each merchant with its fingerprint as served."""
    with story.client() as client:
        found = client.call(story.host.uri, "DISCOVER", "/agents", {"result_type": "merchant"}).json()
        everything = client.call(story.host.uri, "DISCOVER", "/agents", {"result_type": "any"}).json()
        assert client.call(story.host.uri, "DISCOVER", "/", {"result_type": "merchant"}).json() == found
        assert client.call(story.host.uri, "DISCOVER", "/agents", {"result_type": "x"}).status == 422
        verified = Buyer(client).verify(story.shop)
    assert [entry["name"] for entry in found] == ["shop"]
    assert {entry["name"]: entry["role"] for entry in everything} == {"librarian": "agent", "shop": "merchant"}
    assert found[0]["manifest_fingerprint"] == verified.fingerprint
    assert found[0]["manifest"] == verified.document
    assert verified.document["legal_entity_name"] == "Tea Limited"
    assert verified.merchant_id == story.shop_id()


def test_searches_with_criteria_keep_to_the_type(story: Story) -> None:
    """AGTP-330: criteria and ``result_type`` together, merchants with the manifest that the list shows."""
    with story.client() as client:

        def found(kind: str, **more: object) -> list[dict[str, object]]:
            given = {"criteria": "*", "result_type": kind, **more}
            return list(client.call(story.host.uri, "DISCOVER", "/", given).result["results"])

        (shop,) = found("merchant")
        (listed,) = client.call(story.host.uri, "DISCOVER", "/agents", {"result_type": "merchant"}).json()
        assert {entry["name"] for entry in found("any")} == {"librarian", "shop"}
        assert [entry["name"] for entry in found("agent")] == ["librarian"]
        assert found("merchant", filter={"kinds": ["endpoint"]}) == []
        refused = client.call(story.host.uri, "DISCOVER", "/", {"criteria": "*", "result_type": "x"})
    assert (shop["name"], shop["role"], shop["manifest"]) == ("shop", "merchant", listed["manifest"])
    assert shop["manifest_fingerprint"] == listed["manifest_fingerprint"]
    assert (refused.status, refused.json()["parameter"]) == (422, "result_type")


def test_a_cart_is_quoted_with_a_signature_that_holds(story: Story) -> None:
    """AGTP-054, AGTP-299: total, digest and validity are signed by the host, and Cost-Estimate says the price."""
    with story.client() as client:
        reply = client.call(story.shop, "QUOTE", "/cart", {"cart": CART})
        dearer = {**CART, "lines": [{"sku": "tea", "qty": 1, "unit_price": "0.01"}]}
        refused = client.call(story.shop, "QUOTE", "/cart", {"cart": dearer})
    assert reply.status == 200, reply.body
    quote = reply.result
    assert quote["total"] == {"value": "20.00", "currency": "EUR"}
    assert budget.parse(str(reply.headers.get("cost-estimate"))) == budget.parse("EUR=20.00")
    key = VerifyingKey.load(story.state / "signing.pub")
    assert quote["quote_signature"]["key_id"] == key.kid
    covered = {name: quote[name] for name in ("quote_id", "cart_digest", "total", "quote_valid_until")}
    signature = decode(quote["quote_signature"]["value"])
    assert key.verify(signature, canonical(covered))
    for name in covered:
        assert not key.verify(signature, canonical({**covered, name: "0"})), name
    assert (refused.status, refused.reason) == (422, "not_on_offer")
    story.kept["quote"] = quote


def test_a_purchase_leaves_a_record_of_both_parties(story: Story) -> None:
    """AGTP-296, AGTP-298, AGTP-300: verified, bought, and the signed record names who bought from whom for whom."""
    quote = story.kept["quote"]
    text = story.assertion(jti="first", item_digest=quote["cart_digest"])
    with story.client() as client:
        buyer = Buyer(client)
        counterparty = buyer.verify(story.shop)
        reply = buyer.purchase(
            story.shop,
            "/goods",
            goods(item=None, cart_quote_id=quote["quote_id"]),
            counterparty=counterparty,
            intent_assertion=text,
            cart_digest=quote["cart_digest"],
        )
    assert (reply.status, reply.result) == (200, {"sold": 1})
    key = VerifyingKey.load(story.state / "signing.pub")
    assert reply.verify({key.kid: key}).ok
    record = record_of(reply)
    assert record["caller_id"] == story.buyer_id
    assert record["identity_assurance"] == "certificate"
    assert record["merchant_id"] == record["agent_id"] == counterparty.merchant_id
    assert record["merchant_fingerprint"] == counterparty.fingerprint
    assert record["intent_assertion_jti"] == "first"
    assert record["acting_principal_id"] == "alice"
    assert record["extra"]["purchase"]["cart_digest"] == quote["cart_digest"]
    story.kept["assertion"] = text


def test_an_assertion_for_one_cart_buys_nothing_else(story: Story) -> None:
    """With the cart's digest in the assertion and any item in the request: 458, until the request names the cart."""
    text = story.assertion(jti="bound", item_digest=story.kept["quote"]["cart_digest"])
    with story.client() as client:
        reply = Buyer(client).purchase(story.shop, "/goods", goods(item="a gold bar"), intent_assertion=text)
    assert (reply.status, reply.reason) == (458, "intent-assertion-invalid"), reply.body
    assert "cart_quote_id" in reply.document["remedy"]


def test_a_replay_buys_nothing(story: Story) -> None:
    """The same assertion again, in every shape of request: 458, and what was sold stays one; so is a hold, 422."""
    text = story.kept["assertion"]
    with story.client() as client:
        buyer = Buyer(client)
        reply = buyer.purchase(
            story.shop, "/goods", goods(), intent_assertion=text, cart_digest=story.kept["quote"]["cart_digest"]
        )
        other = buyer.purchase(story.shop, "/goods", goods(item="cup"), intent_assertion=text)
        wished = goods(confirm_immediately=False)
        held = buyer.purchase(story.shop, "/goods", wished, intent_assertion=story.assertion())
        good = buyer.purchase(story.shop, "/goods", goods(), intent_assertion=story.assertion())
    assert [(each.status, each.reason) for each in (reply, other)] == [(458, "intent-assertion-replayed")] * 2
    assert (held.status, held.document["parameter"]) == (422, "confirm_immediately"), "this merchant holds nothing"
    assert good.result == {"sold": 2}


def test_a_wrong_fingerprint_buys_nothing(story: Story) -> None:
    """AGTP-295, AGTP-296: the host's own check, whatever the client did; AGTP-297: it is in the log."""
    wrong = {"Merchant-ID": story.shop_id(), "Merchant-Manifest-Fingerprint": "0" * 64}
    with story.client() as client:
        replies = [
            client.call(story.shop, "PURCHASE", "/goods", goods(), headers=headers)
            for headers in ([], list(wrong.items())[:1], list(wrong.items())[1:], list(wrong.items()))
        ]
    assert [(reply.status, reply.reason) for reply in replies] == [
        (458, "missing-merchant-id-header"),
        (458, "missing-merchant-manifest-fingerprint-header"),
        (458, "missing-merchant-id-header"),
        (458, "merchant-manifest-fingerprint-mismatch"),
    ]
    assert replies[-1].json()["retryable"] is True
    assert all(record_of(reply)["status"] == 458 for reply in replies)
    until(lambda: "merchant-manifest-fingerprint-mismatch" in story.host.output)


def test_scope_and_budget_come_first(story: Story) -> None:
    """METH-055, METH-056: demo has no payments:purchase, 455; a budget under the amount is 456; nothing is sold."""
    with story.client("demo") as demo:
        reply = Buyer(demo).purchase(story.shop, "/goods", goods())
        assert (reply.status, reply.json()["missing_scopes"]) == (455, ["payments:purchase"])
    with story.client() as client:
        buyer = Buyer(client)
        for limit, status in (("EUR=19.99", 456), ("EUR=19.9", 400), ("EUR=20.00, calls=0", 456)):
            reply = buyer.purchase(story.shop, "/goods", goods(), headers=[("Budget-Limit", limit)])
            assert reply.status == status, limit
        reply = buyer.purchase(story.shop, "/goods", goods(), headers=[("Budget-Limit", "EUR=20.00, calls=1")])
    assert reply.result == {"sold": 3}


def test_what_a_call_costs_is_told_without_making_it(story: Story) -> None:
    """METH-020, METH-064, AGTP-054: QUOTE of a PURCHASE gives its declared cost and its amount."""
    asked = {"method": "PURCHASE", "path": "/goods", "parameters": goods(), "budget_units": ["EUR", "calls"]}
    with story.client() as client:
        reply = client.call(story.shop, "QUOTE", "/", asked)
        assert client.call(story.shop, "QUOTE", "/", {"parameters": {}}).status == 422
        assert client.call(story.shop, "QUOTE", "/", {"method": "PURCHASE", "parameters": {}}).status == 404
    assert reply.status == 200, reply.body
    assert budget.parse(str(reply.headers.get("cost-estimate"))) == budget.parse("calls=1, EUR=20.00")
    assert reply.result["estimated_cost"]["EUR"]["expected"] == "20.00"


def test_the_client_buys_from_merchants_alone(story: Story) -> None:
    """AGTP-302: against an agent that is none it gives up before anything is on the wire."""
    with story.client() as client:
        sent: list[str] = []
        call = client._calls.call

        def watched(uri: Any, method: str, *rest: Any, **options: Any) -> Any:
            sent.append(method)
            return call(uri, method, *rest, **options)

        client._calls.call = watched  # type: ignore[method-assign]
        with pytest.raises(CounterpartyUnverified, match="role merchant"):
            Buyer(client).purchase(story.uri_of("librarian"), "/goods", goods())
        assert sent == ["DESCRIBE"]


def test_the_pages_buyer_buys(story: Story, tmp_path: Path) -> None:
    """The program of docs/client.rst as it stands; with another key it buys nothing."""
    (program,) = [block for block in blocks((ROOT / "docs" / "client.rst").read_text()) if "import Buyer" in block]
    stranger = tmp_path / "stranger.pub"
    SigningKey.generate().public.save(stranger)
    buyer = story.state / "agents" / "buyer"

    def run(signer: Path) -> subprocess.CompletedProcess[str]:
        words = [story.shop, story.state / "ca.pem", signer, buyer / "agent.pem", buyer / "agent.key"]
        return subprocess.run(
            [sys.executable, "-c", program, *map(str, words)], capture_output=True, text=True, timeout=60
        )

    done = run(story.state / "signing.pub")
    assert done.stdout == "verified shop\n200 {'sold': 4}\n", done.stderr
    refused = run(stranger)
    assert refused.returncode == 1 and "no registrar" in refused.stderr and not refused.stdout


def test_a_restart_forgets_no_assertion_and_the_role_can_go(story: Story) -> None:
    """AGTP-146: without the role the same Agent-ID sells nothing; a used assertion and a quote outlive a restart."""
    story.host.stop()
    with running(story.config) as host:
        story.host = host
        with story.client() as client:
            buyer = Buyer(client)
            replay = buyer.purchase(story.shop, "/goods", goods(), intent_assertion=story.kept["assertion"])
            assert (replay.status, replay.reason) == (458, "intent-assertion-replayed")
            digest = story.kept["quote"]["cart_digest"]
            assert buyer.purchase(story.shop, "/goods", goods(), cart_digest=digest).status == 200
            before = buyer.verify(story.shop)
    file = story.state / "hosted/shop/document.json"
    plain = {**json.loads(file.read_text()), "role": "agent"}
    registrar = SigningKey.load(story.state / "registrar.key")
    merchant = file.read_bytes()
    file.write_bytes(canonical(documents.sign(plain, "registrar.localhost", registrar)))
    headers = [("Merchant-ID", before.merchant_id), ("Merchant-Manifest-Fingerprint", before.fingerprint)]
    with running(story.config) as host:
        story.host = host
        with story.client() as client:
            assert client.resolve(story.shop).json()["agent_id"] == before.merchant_id
            reply = client.call(story.shop, "PURCHASE", "/goods", goods(), headers=headers)
            assert (reply.status, reply.reason) == (458, "not-a-merchant")
    file.write_bytes(merchant)


def test_a_suspended_merchant_sells_nothing(story: Story) -> None:
    """AGTP-296: the host refuses with 458, the client before it sends; reinstated, it has to be verified anew."""
    with running(story.config) as host:
        story.host = host
        with story.client() as client:
            buyer = Buyer(client)
            before = buyer.verify(story.shop)
            done = host.agtp("agent", "deactivate", "shop", "--reason", "stocktaking")
            assert done.returncode == 0, done.stdout + done.stderr
            reply = buyer.purchase(story.shop, "/goods", goods(), counterparty=before)
            assert (reply.status, reply.reason) == (458, "merchant-not-active")
            assert reply.json()["lifecycle_state"] == "suspended"
            # AGTP-297: what was refused is not sent again, and verifying it again fails.
            with pytest.raises(CounterpartyUnverified, match="again"):
                buyer.purchase(story.shop, "/goods", goods(), counterparty=before)
            with pytest.raises(CounterpartyUnverified, match="503"):
                buyer.purchase(story.shop, "/goods", goods())
            assert host.agtp("agent", "reinstate", "shop", "--reason", "done").returncode == 0
            stale = client.call(
                story.shop,
                "PURCHASE",
                "/goods",
                goods(),
                headers=[("Merchant-ID", before.merchant_id), ("Merchant-Manifest-Fingerprint", before.fingerprint)],
            )
            assert (stale.status, stale.reason) == (458, "merchant-manifest-fingerprint-mismatch")
            assert buyer.purchase(story.shop, "/goods", goods()).status == 200
        assert host.agtp("audit", "verify").returncode == 0
