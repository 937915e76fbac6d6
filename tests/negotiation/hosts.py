"""A host in memory at which agents negotiate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from agtphost.config.policies import RCNS, Policies, Synthesis
from agtphost.config.published import DataClass
from agtphost.config.values import Section
from agtphost.contract.endpoint import Endpoint, HandlerReference
from agtphost.contract.policy import MethodPolicy
from agtphost.contract.recipes.book import RecipeBook
from agtphost.contract.recipes.graph import RecipeGraph
from agtphost.contract.recipes.recipe_loading import RecipeRules, read_recipes
from agtphost.contract.recipes.selection import NEVER
from agtphost.contract.schemas import compile_schema
from agtphost.contract.semantic import Impact, Semantic
from agtphost.handlers.context import EndpointContext
from agtphost.identity.agents import Agent
from agtphost.identity.peer import Assurance, Peer
from agtphost.testing.reactor import MemoryReactor
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.catalog_set import CatalogSet
from agtphost.wire.events import Response
from tests.dispatch.hosts import Recorder, agent, certificate
from tests.fakes import FakeLedger
from tests.memory import OpenHost

T = TypeVar("T", bound=Section)

ALICE, BOB, ROOT = "a" * 64, "b" * 64, "d" * 64
HOSTED = "e" * 64
CATALOG = Catalog.load()

OPEN = Policies(synthesis_enabled=True)
GATE = RCNS(enabled=True, min_trust_tier=2)


def schema(required: Mapping[str, Any] | None = None, optional: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A closed object schema; a name of a type stands for that type."""
    given = {**(required or {}), **(optional or {})}
    return {
        "type": "object",
        "properties": {name: {"type": kind} if isinstance(kind, str) else kind for name, kind in given.items()},
        "required": list(required or {}),
        "additionalProperties": False,
    }


def semantic(intent: str, outcome: str = "It is done.", **changes: Any) -> dict[str, Any]:
    """A semantic block that says ``intent``."""
    return {
        "intent": intent,
        "actor": "agent",
        "outcome": outcome,
        "capability": "retrieval",
        "confidence": 0.9,
        "impact": "informational",
        "is_idempotent": True,
        **changes,
    }


def endpoint(
    method: str,
    path: str,
    intent: str,
    taken: Mapping[str, Any],
    given: Mapping[str, Any],
    scopes: Sequence[str] = (),
    **changes: Any,
) -> Endpoint:
    """An operator's endpoint."""
    block = semantic(intent, **changes)
    return Endpoint(
        method=method,
        path=path,
        description=intent,
        semantic=Semantic(**{**block, "impact": Impact(block["impact"])}),
        input_schema=compile_schema(taken, role="input"),
        output_schema=compile_schema(given, role="output"),
        errors=(),
        handler=HandlerReference(type="registered_function"),
        required_scopes=tuple(scopes),
        min_assurance=Assurance.HEADER,
    )


CUSTOMER = endpoint(
    "FETCH",
    "/customers/{customer_id}",
    "Return the address and the region of a customer.",
    schema({"customer_id": "string"}),
    schema({"address": "string", "region": "string"}),
    ["customers:read"],
)
WEATHER = endpoint(
    "FORECAST" if "FORECAST" in CATALOG.methods else "ESTIMATE",
    "/weather",
    "Forecast the weather of a region.",
    schema({"region": "string"}),
    schema({"summary": "string"}),
    ["weather:read"],
)
BOOKING = endpoint(
    "RESERVE",
    "/desk",
    "Reserve a desk for a guest.",
    schema({"guest": "string"}),
    schema({"reservation": "string"}),
    ["desks:book"],
    capability="transaction",
    impact="reversible",
    is_idempotent=False,
)
ERASURE = endpoint(
    "PURGE" if "PURGE" in CATALOG.methods else "REMOVE",
    "/ledgers",
    "Erase the archive for good.",
    schema({"confirm": "boolean"}),
    schema({"erased": "boolean"}),
    capability="transaction",
    impact="irreversible",
    is_idempotent=False,
)

ROOM = """
[[recipe]]
name = "book-room"
version = "{version}"
description = "Books a desk as a room."
output = {{ reservation = "=stay.reservation", by = "{version}" }}

[[recipe.step]]
method = "RESERVE"
path = "/desk"
input = {{ guest = "=input.guest" }}
capture = "stay"

[recipe.endpoint]
method = "BOOK"
path = "/room"
description = "Books a room for the named guest."

[recipe.endpoint.input_schema]
type = "object"
required = ["guest"]
additionalProperties = false
properties = {{ guest = {{ type = "string" }} }}

[recipe.endpoint.semantic]
intent = "Book a room for a guest."
actor = "agent"
outcome = "A room is booked."
capability = "transaction"
confidence = 0.9
impact = "reversible"
is_idempotent = false

[recipe.endpoint.output_schema]
type = "object"
required = ["reservation"]
additionalProperties = false
properties = {{ reservation = {{ type = "string" }}, by = {{ type = "string" }} }}
"""


def room(version: str = "3") -> str:
    """The recipe of BOOK /room."""
    return ROOM.format(version=version)


def but(section: T, **changes: Any) -> T:
    """A section with changes."""
    return section.model_copy(update=changes)


def granting(policies: Policies, **synthesis: Any) -> Policies:
    """Policies with changes of ``[policies.synthesis]``."""
    return but(policies, synthesis=Synthesis(**synthesis))


class NegotiatingHost(OpenHost):
    """
    One host.

    :param recipes: TOML.
    :param ledger: of an earlier host, to play a restart.
    :param catalog: perhaps another than at that time.
    :param unclassified: whether endpoints that declare no data classes are negotiated.
    """

    def __init__(
        self,
        policies: Policies = OPEN,
        *,
        recipes: str = room(),
        endpoints: Sequence[Endpoint] = (CUSTOMER, WEATHER, BOOKING, ERASURE),
        ledger: FakeLedger | None = None,
        policy: MethodPolicy | None = None,
        clock: MemoryReactor | None = None,
        scopes: Sequence[str] = ("customers:read", "weather:read", "desks:book", "rcns:negotiate"),
        tier: int = 2,
        answers: Mapping[str, Callable[[EndpointContext], Any]] | None = None,
        catalog: Catalog = CATALOG,
        data_classes: Sequence[DataClass] = (),
        unclassified: bool = True,
    ) -> None:
        policies = but(policies, synthesis=but(policies.synthesis, unclassified=unclassified))
        read, problems = read_recipes(recipes, "recipes.toml", RecipeRules(catalog=catalog, never=NEVER))
        assert not problems, problems
        self.alice = self._agent(ALICE, "alice", scopes, tier)
        self.bob = self._agent(BOB, "bob", scopes, tier)
        self.root = self._agent(ROOT, "root", ("inspect:all",), tier)
        self.hosted = agent(HOSTED, "librarian", hosted=True)
        self.calls: list[tuple[str, Mapping[str, Any], str]] = []
        self.answers = dict(answers or {})
        super().__init__(
            {
                "host": {"server_id": "host.test"},
                "policies": policies.model_dump(
                    include={"synthesis_enabled", "max_synthesis_depth", "synthesis", "rcns"}
                ),
                "data_class": [each.model_dump() for each in data_classes],
            },
            agents=(self.alice, self.bob, self.root, self.hosted),
            ledger=ledger,
            auth="open",
            catalogs=CatalogSet(primary=catalog),
            policy=policy or MethodPolicy(),
            endpoints=endpoints,
            recipes=RecipeBook(read, RecipeGraph(read, endpoints)),
        )
        for each in endpoints:
            self.bind(each.bind(Recorder(self._answer)))
        if clock is None:
            self.clock.advance(1_800_000_000)
        else:
            self.clock = clock
        self.links: dict[str, Peer] = {}

    def seconds(self) -> float:
        """The clock's own."""
        return self.clock.seconds()

    @property
    def negotiator(self) -> Any:
        """What the host negotiates with."""
        return self.core.negotiating

    @staticmethod
    def _agent(agent_id: str, name: str, scopes: Sequence[str], tier: int) -> Agent:
        made = agent(agent_id, name, hosted=False, scopes=frozenset(scopes))
        return replace(made, posture=replace(made.posture, trust_tier=tier))

    def _answer(self, context: EndpointContext) -> Any:
        assert context.caller is None or context.caller.agent_id
        self.calls.append(
            (
                f"{context.method} {context.path}",
                dict(context.input),
                "" if context.caller is None else context.caller.agent_id,
            )
        )
        own = self.answers.get(context.method)
        if own is not None:
            return own(context)
        return {
            "RESERVE": {"reservation": f"R{len(self.calls)}"},
            "FETCH": {"address": "1 High Street", "region": "north"},
            WEATHER.method: {"summary": "rain"},
            ERASURE.method: {"erased": True},
        }.get(context.method, {})

    def peer(self, agent_id: str | None, *, sure: bool = True) -> Peer:
        """A new connection."""
        return Peer(address="127.0.0.1", certificate=certificate(agent_id) if agent_id and sure else None)

    def ask(
        self,
        method: str,
        path: str = "/",
        body: Any = None,
        *,
        who: str | None = ALICE,
        headers: Mapping[str, str] | None = None,
        peer: Peer | None = None,
        sure: bool = True,
    ) -> Response:
        """One request, on the agent's own connection unless another one is given."""
        fields = dict(headers or {})
        if who is not None:
            fields.setdefault("Agent-ID", who)
        if peer is None:
            name = f"{who}{sure}"
            peer = self.links.get(name)
            if peer is None:
                peer = self.links[name] = self.peer(who, sure=sure)
        path, _, query = path.partition("?")
        return super().ask(method, path, body, peer=peer, headers=fields, query=query or None)

    def propose(self, definition: Mapping[str, Any], **options: Any) -> Response:
        """PROPOSE in the wrapped form; ``beside`` goes beside the definition."""
        beside = options.pop("beside", {})
        return self.ask("PROPOSE", "/", {"parameters": {"endpoint": definition, **beside}}, **options)

    def opted(self, method: str = "BOOK", path: str = "/room", body: Any = None, **options: Any) -> Response:
        """A request that allows negotiation."""
        headers = {"Allow-RCNS": "true", **options.pop("headers", {})}
        return self.ask(method, path, {"guest": "Ann"} if body is None else body, headers=headers, **options)

    def under(
        self, synthesis_id: str, method: str = "BOOK", path: str = "/room", body: Any = None, **options: Any
    ) -> Response:
        """A request that presents a contract."""
        headers = {"Contract-Synthesized": synthesis_id, **options.pop("headers", {})}
        return self.ask(method, path, {"guest": "Ann"} if body is None else body, headers=headers, **options)

    @property
    def payload(self) -> Mapping[str, Any]:
        """What the last record says."""
        return self.ledger.drafts[-1].payload

    def events(self) -> list[tuple[str, str]]:
        """Chain and type of every stream event, in order."""
        return [(event.chain, event.event_type) for draft in self.ledger.drafts for event in draft.events]


BOOK_ROOM: Mapping[str, Any] = {
    "method": "BOOK",
    "path": "/room",
    "description": "Books a room for the named guest.",
    "semantic": semantic(
        "Book a room for a guest.", capability="transaction", impact="reversible", is_idempotent=False
    ),
    "input_schema": schema({"guest": "string"}),
    "output_schema": schema({"reservation": "string"}),
}
"""What the recipe answers."""

LOCATE: Mapping[str, Any] = {
    "method": "LOCATE",
    "path": "/customer/{customerId}/location",
    "description": "Return the address of a customer.",
    "semantic": semantic("Return the address of a customer.", capability="retrieval"),
    "input_schema": schema({"customerId": "string"}),
    "output_schema": schema({"address": "string"}),
}
"""A passthrough to CUSTOMER, under another name and spelling."""

OUTLOOK: Mapping[str, Any] = {
    "method": "PREDICT" if "PREDICT" in CATALOG.methods else "ESTIMATE",
    "path": "/outlook",
    "description": "Forecast the weather where a customer lives.",
    "semantic": semantic("Forecast the weather for the region of a customer.", capability="retrieval"),
    "input_schema": schema({"customer_id": "string"}),
    "output_schema": schema({"summary": "string"}),
}
"""A pipeline: the customer's region, then its weather."""
