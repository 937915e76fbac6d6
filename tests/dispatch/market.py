"""A buyer and a merchant in memory: real gates, documents signed by a registrar, assertions signed by a platform."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from joserfc import jws
from joserfc.jwk import ECKey, KeySet, OKPKey

from agtphost.contract.binding import Binding
from agtphost.dispatch.gates.purchase import MerchantGate
from agtphost.dispatch.merchants import MerchantManifests
from agtphost.dispatch.quotes import Quotes
from agtphost.handlers.context import EndpointContext
from agtphost.identity.agent_files import load_agents
from agtphost.identity.agents import Agent
from agtphost.identity.bearer import TokenIssuer, read_keys
from agtphost.identity.intent import IntentAssertions
from agtphost.identity.peer import Peer
from agtphost.methods.merchant import Estimates, Quotation, quoting
from agtphost.wire.events import Response
from tests.dispatch.scene import CALLER, Recorder, Scene, agent, certificate
from tests.fakes import FakeLedger
from tests.identity.samples import key_of, place_agent

PLATFORM = "https://platform.example.com"
KEY = OKPKey.generate_key("Ed25519", {"kid": "platform-1"})
OTHER = OKPKey.generate_key("Ed25519", {"kid": "platform-1"})
EC = ECKey.generate_key("P-256", {"kid": "platform-ec"})
PUBLIC = json.dumps(KeySet([KEY, EC]).as_dict(private=False)).encode()
REGISTRAR = key_of("market registrar")
HOST_KEY = key_of("market host_key")

CART = {
    "lines": [{"sku": "tea", "qty": 2, "unit_price": "4.50"}, {"sku": "cup", "qty": 1, "unit_price": "7.00"}],
    "currency": "EUR",
    "tax": "3.04",
    "shipping": "0.96",
}
"""Comes to 20.00 EUR."""


def merchant(**members: Any) -> Agent:
    """A hosted agent as it is loaded from its files, with the role unless ``members`` say otherwise."""
    with tempfile.TemporaryDirectory() as folder:
        place_agent(Path(folder), REGISTRAR, name="shop", **{"role": "merchant", **members})
        found, problems = load_agents(Path(folder), hosted=True, production=False, trusted_issuers=())
    assert not problems, problems
    return found[0]


def claims(merchant_id: str, **changes: Any) -> dict[str, Any]:
    """Those of a good assertion; a change to None leaves one out."""
    now = int(time.time())
    good = {
        "iss": PLATFORM,
        "sub": "alice",
        "aud": merchant_id,
        "agent_id": CALLER,
        "amount_ceiling": {"value": "25.00", "currency": "EUR"},
        "iat": now - 5,
        "nbf": now - 5,
        "exp": now + 300,
        "jti": f"jti-{time.perf_counter_ns()}",
        **changes,
    }
    return {name: value for name, value in good.items() if value is not None}


def signed(body: Mapping[str, Any], key: Any = KEY, alg: str = "EdDSA", **header: Any) -> str:
    """A JWT."""
    protected = {"alg": alg, "kid": key.kid, "typ": "JWT", **header}
    registry = jws.JWSRegistry(algorithms=[alg], strict_check_header=False)
    return str(jws.serialize_compact(protected, json.dumps(body).encode(), key, registry=registry))


class Market(Scene):
    """
    A host with the merchant ``shop``: ``PURCHASE /goods`` and ``QUOTE /cart``.

    :param answer: what the PURCHASE endpoint does.
    :param offer: what the QUOTE endpoint does.
    """

    def __init__(
        self,
        answer: Callable[[EndpointContext], Any] | None = None,
        *,
        shop: Agent | None = None,
        offer: Callable[[EndpointContext], Any] = lambda context: {"in_stock": True},
        settings: Mapping[str, Any] | None = None,
        scopes: frozenset[str] = frozenset({"payments:purchase", "documents:query"}),
        ledger: FakeLedger | None = None,
        **changes: Any,
    ) -> None:
        ledger = ledger or FakeLedger()
        given = dict(settings or {})
        self.seller = Recorder(answer or (lambda context: {"order": "o-1"}))
        self.pricer = Recorder(offer)
        self.manifests = MerchantManifests(signed=given.get("production", False))
        platform = TokenIssuer(issuer=PLATFORM, audiences=("ignored",), keys=read_keys(PUBLIC), leeway=30.0)
        estimates = Estimates(lambda method, path: self.table_match(method, path))
        quotes = Quotes(ledger.held)

        def gate(scene: Scene) -> MerchantGate:
            return MerchantGate(
                scene.state_of, self.manifests, assertions=IntentAssertions([platform]), held=ledger.held, **given
            )

        super().__init__(
            hosted=shop or merchant(),
            caller=agent(CALLER, "buyer", hosted=False, scopes=scopes),
            ledger=ledger,
            merchant=gate,
            bindings=(
                Binding(
                    method="PURCHASE", path="/goods", handler=self.seller, tier="B", errors=frozenset({"sold_out"})
                ),
                quoting(
                    Binding(method="QUOTE", path="/cart", handler=self.pricer, tier="B", state_changing=False),
                    lambda inner: Quotation(inner, estimates, quotes, key=HOST_KEY),
                ),
                *changes.pop("bindings", ()),
            ),
            **changes,
        )

    def table_match(self, method: str, path: str) -> Any:
        from agtphost.contract.table import EndpointTable

        return EndpointTable(self.bindings).match(method, path)

    @property
    def fingerprint(self) -> str:
        """Of the shop's manifest at the moment."""
        return self.manifests.of(self.hosted, self.state_of(self.hosted)).fingerprint

    def assertion(self, key: Any = KEY, alg: str = "EdDSA", **changes: Any) -> str:
        """An Intent-Assertion for this shop."""
        return signed(claims(self.hosted.agent_id, **changes), key, alg)

    def headers(self, **changes: str | None) -> dict[str, str]:
        """Those of a verified purchase; a change to None leaves one out, ``_`` stands for ``-``."""
        good: dict[str, str | None] = {
            "Merchant-ID": self.hosted.agent_id,
            "Merchant-Manifest-Fingerprint": self.fingerprint,
            **{name.replace("_", "-"): value for name, value in changes.items()},
        }
        return {name: value for name, value in good.items() if value is not None}

    def buy(self, body: Any = None, peer: Peer | None = None, **headers: str | None) -> Response:
        """One PURCHASE."""
        given = {"item": "tea", "principal_id": "alice", "amount": "20.00 EUR", **(body or {})}
        sent = {name: value for name, value in given.items() if value is not None}
        return self.ask("PURCHASE", "/goods", sent, peer=peer, headers=self.headers(**headers))

    def quote(self, cart: Any = CART, **more: Any) -> Response:
        """One QUOTE of a cart."""
        return self.ask("QUOTE", "/cart", {"cart": cart, **more})


def known(agent_id: str = CALLER) -> Peer:
    """A connection with an agent's certificate."""
    return Peer(address="127.0.0.1", certificate=certificate(agent_id))
