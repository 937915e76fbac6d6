"""A buyer and a merchant in memory: documents signed by a registrar, assertions signed by a platform."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from joserfc import jws
from joserfc.jwk import ECKey, KeySet, OKPKey

from agtphost.contract.binding import Binding
from agtphost.contract.schemas import compile_schema
from agtphost.handlers.context import EndpointContext
from agtphost.identity.agent_files import load_agents
from agtphost.identity.agents import Agent
from agtphost.identity.bearer import read_keys
from agtphost.identity.canonical import canonical
from agtphost.identity.peer import Peer
from agtphost.wire.events import Response
from tests.dispatch.hosts import CALLER, DispatchHost, Recorder, agent
from tests.identity.samples import key_of, place_agent

PLATFORM = "https://platform.example.com"
KEY = OKPKey.generate_key("Ed25519", {"kid": "platform-1"})
OTHER = OKPKey.generate_key("Ed25519", {"kid": "platform-1"})
EC = ECKey.generate_key("P-256", {"kid": "platform-ec"})
PUBLIC = json.dumps(KeySet([KEY, EC]).as_dict(private=False)).encode()
REGISTRAR = key_of("purchase registrar")

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


class PurchaseHost(DispatchHost):
    """
    A host with the merchant ``shop``: ``PURCHASE /goods`` and ``QUOTE /cart``.

    :param answer: what the PURCHASE endpoint does.
    :param shop: who sells.
    :param offer: what the QUOTE endpoint does.
    :param scopes: the buyer's.
    :param schema: of the input of PURCHASE; None: it declares none.
    :param intent_required: whether every purchase needs an Intent-Assertion.
    :param options: see :class:`tests.dispatch.hosts.DispatchHost`.
    """

    def __init__(
        self,
        answer: Callable[[EndpointContext], Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        *,
        shop: Agent | None = None,
        offer: Callable[[EndpointContext], Any] = lambda context: {"in_stock": True},
        scopes: frozenset[str] = frozenset({"payments:purchase", "documents:query"}),
        intent_required: bool = False,
        bindings: Iterable[Binding] = (),
        schema: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.seller = Recorder(answer or (lambda context: {"order": "o-1"}))
        self.pricer = Recorder(offer)
        platform = {"issuer": PLATFORM, "jwks": read_keys(PUBLIC)}
        super().__init__(
            settings={"merchant": {"intent_required": intent_required, "platform": [platform]}, **(settings or {})},
            hosted=shop or merchant(),
            caller=agent(CALLER, "buyer", hosted=False, scopes=scopes),
            bindings=(
                Binding(
                    method="PURCHASE",
                    path="/goods",
                    handler=self.seller,
                    tier="B",
                    errors=frozenset({"sold_out"}),
                    input_schema=None if schema is None else compile_schema(schema, role="input"),
                ),
                Binding(method="QUOTE", path="/cart", handler=self.pricer, tier="B", state_changing=False),
                *bindings,
            ),
            **options,
        )

    @property
    def fingerprint(self) -> str:
        """Of the shop's manifest at the moment."""
        state = self.states.state_of(self.hosted)
        methods = tuple(self.core.services.registry.methods())
        return sha256(canonical(json.loads(self.core.shown.publisher.octets(self.hosted, state, methods)))).hexdigest()

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
