"""
Who is shown a registered card, and who may call it: one table over cards, callers and ways of calling.

What is judged is the URL that is called, at the call. The URL's provider may ask for scopes, whatever the card says
and whoever registered it; the host calls the provider with the operator's credentials, so these are the operator's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from agtphost.config.registry import Provider as ProviderSection
from agtphost.contract.service import ServiceReference
from agtphost.handlers.context import EndpointError
from agtphost.identity.peer import Peer
from agtphost.registry import bindings
from agtphost.registry.card_peers import CardPeers
from agtphost.registry.feature import Registry
from agtphost.registry.providers import Providers
from agtphost.testing.connection import Answer
from agtphost.testing.identities import TestAgent, key_of
from agtphost.testing.reactor import MemoryReactor
from tests.host.carried import carried
from tests.memory import request_of
from tests.registry.hosts import RegistryHost, card
from tests.rows import each_row

BANK, OPEN = "https://bank.example.com", "https://open.example.com"
KEY = "Bearer of the operator"
PAY, LOOK = "payments:transfer", "look"

PROVIDERS = [
    {"origin": OPEN},
    {"origin": BANK, "scopes": [PAY], "headers": {"Authorization": KEY}},
]
VIEWER = key_of("viewer")


@dataclass(frozen=True)
class Kind:
    """A card that the agent ``translator`` registers, which has the scope to register and no other."""

    endpoint: str
    operations: Mapping[str, str] = field(default_factory=dict)
    """URLs by name; without any, the endpoint is called."""

    @property
    def urls(self) -> dict[str, str]:
        return dict(self.operations) or {"invoke": self.endpoint}

    def document(self, name: str) -> dict[str, Any]:
        operations = [{"name": each, "endpoint": url} for each, url in self.operations.items()]
        more = {"operations": operations} if operations else {}
        return card(id=f"translator:{name}", endpoint=self.endpoint, inputs=None, outputs=None, **more)


KINDS = {
    "open": Kind(f"{OPEN}/a"),
    "guarded": Kind(f"{BANK}/a"),
    "guarded-operation": Kind(f"{OPEN}/a", {"pay": f"{BANK}/pay"}),
    "both": Kind(f"{OPEN}/a", {"look": f"{OPEN}/look", "pay": f"{BANK}/pay"}),
    "guarded-endpoint": Kind(f"{BANK}/a", {"look": f"{OPEN}/look"}),
    "upper-case": Kind(f"{OPEN}/a", {"pay": "HTTPS://BANK.Example.COM/pay"}),
    "port": Kind(f"{OPEN}/a", {"pay": "https://bank.example.com:443/pay"}),
    "zeros": Kind(f"{OPEN}/a", {"pay": "https://bank.example.com:00443/pay"}),
    "dot": Kind(f"{OPEN}/a", {"pay": "https://bank.example.com./pay"}),
    "path": Kind(f"{OPEN}/a", {"pay": f"{BANK}/%2e%2e/open.example.com%2fa/../pay?at={OPEN}"}),
    "nowhere": Kind("https://nowhere.example.com/a"),
}
GUARDED = {"pay"}
"""Operations at the bank, beside the endpoint of ``guarded``."""


@dataclass(frozen=True)
class Who:
    """A caller, and what is true of it."""

    as_: str
    """Of :attr:`Stage.people`; empty: nobody."""

    sure: bool = False
    """Whether more than a header says who it is."""

    pays: bool = False
    """Whether it has the scope of the bank."""

    sees: bool = False
    """Whether it sees every card: its own, or as an overseer."""

    allowed: bool = True
    """Whether its grants, if it is narrowed, name the cards."""


CALLERS = {
    "stranger": Who(""),
    "a name in a header": Who("said", pays=True),
    "the maker": Who("translator", sure=True, sees=True),
    "another without the scope": Who("demo", sure=True),
    "another with the scope": Who("payer", sure=True, pays=True),
    "a claim without the scope": Who("claiming less", sure=True),
    "narrowed": Who("narrowed", sure=True, pays=True, allowed=False),
    "narrowed to the cards": Who("granted", sure=True, pays=True),
    "overseer": Who("overseer", sure=True, sees=True),
    "operator": Who("operator", sees=True),
    "viewer": Who("viewer", sees=True),
}


class Provider:
    """In place of the network: what the host would have sent, and to where."""

    def __init__(self, heard: list[tuple[str, str]], reference: ServiceReference, fields: Mapping[str, str]) -> None:
        self._heard, self._url, self._fields = heard, reference.url, fields

    async def handle(self, context: Any) -> Any:
        self._heard.append((self._url, self._fields.get("Authorization", "")))
        if self._url.endswith("/missing"):
            raise EndpointError("upstream_error", {"upstream_status": 404})
        return {"done": True}

    async def close(self) -> None:
        """Nothing is kept."""


class Stage:
    """A host with every kind of card, twice: as its agent registers it, and made public by the operator."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.heard: list[tuple[str, str]] = []
        monkeypatch.setattr(
            bindings, "ExternalService", lambda reference, fields, *_: Provider(self.heard, reference, fields)
        )
        settings = {"admin": {"viewers": [VIEWER.public.fingerprint]}, "methods": {"standard": "*"}}
        host = self.host = RegistryHost({"provider": PROVIDERS}, settings=settings)
        self.people: dict[str, Any] = {
            "": None,
            "said": host.agent("said", scopes=(PAY, "inspect:all"), certificate=False),
            "translator": host.translator,
            "demo": host.demo,
            "operator": host.operator,
            "viewer": host.identities.of_key(VIEWER),
            "overseer": host.agent("overseer", scopes=("inspect:all",)),
        }
        for name in ("payer", "claiming less", "narrowed", "granted"):
            self.people[name] = host.agent(name.replace(" ", "-"), scopes=(PAY, "booking:desk"))
        for name, kind in KINDS.items():
            assert host.register(given=kind.document(name), lifetime=86_400).status == 200
            assert host.register(given=kind.document(f"{name}-public"), lifetime=86_400).status == 200
            approved = self.approve(f"translator:{name}-public", public=True)
            assert approved.status == 200, approved.explanation
        assert host.grant("QUERY /words", agent="narrowed").status == 200
        assert host.grant("EXECUTE /cards/*", "BATCH", "CHAIN", agent="granted").status == 200
        self.heard.clear()

    def approve(self, card_id: str, caller: Any = None, **given: Any) -> Answer:
        return self.host.call("APPROVE", f"/cards/{card_id}", given, caller=caller or self.host.operator)

    def call(self, who: str, card_id: str, operation: str, given: Any = None, **options: Any) -> Answer:
        """EXECUTE by a card."""
        asked = {"action": operation, "parameters": given or {}}
        return self.ask(who, "EXECUTE", f"/cards/{card_id}", asked, **options)

    def ask(self, who: str, method: str, path: str, given: Mapping[str, Any], **options: Any) -> Answer:
        if who == "claiming less":
            options["scopes"] = ["booking:desk"]
        answer = self.host.begin(method, path, given, caller=self.people[who], **options)
        found: list[Answer] = []
        answer.addCallback(found.append)
        for _ in range(5):
            # Refusals on one connection are answered at a bounded rate.
            self.host.advance(0.2 if not found else 0.0)
        return found[0]

    def reached(self) -> list[tuple[str, str]]:
        """What was called since this was asked last."""
        found = list(self.heard)
        self.heard.clear()
        return found


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with pytest.MonkeyPatch.context() as patch:
        yield Stage(patch)


def rows() -> Iterator[tuple[str, str, bool]]:
    for caller in CALLERS:
        for kind in KINDS:
            for public in (False, True):
                yield caller, kind, public


def may(who: Who, guarded: bool, public: bool) -> bool:
    """The rule, written for the test: whether a URL may be called."""
    if not who.allowed:
        return False
    if guarded:
        return who.sure and who.pays
    return who.sure or public


def test_cards_by_callers(stage: Stage) -> None:
    """
    A call reaches a provider if and only if the caller has the scopes of the URL's provider.

    It is shown to who may call something of it, to its maker and to overseers; those two call no more than others.
    """
    wrong, reached, refused = [], 0, 0
    for caller, name, public in rows():
        who, kind = CALLERS[caller], KINDS[name]
        card_id = f"translator:{name}-public" if public else f"translator:{name}"
        at_bank = {each: each in GUARDED or name == "guarded" for each in kind.urls}
        top = may(who, kind.endpoint.startswith(BANK), public)
        shown = who.sees or (top and any(may(who, at_bank[each], public) for each in kind.urls))
        got = stage.ask(who.as_, "QUERY", f"/cards/{card_id}", {}).status
        if got != (200 if shown else 404):
            wrong.append(f"{caller}: {card_id} is shown with {got}, and not {shown}")
        for operation, url in kind.urls.items():
            answer = stage.call(who.as_, card_id, operation)
            expected = shown and may(who, at_bank[operation], public) and name != "nowhere"
            heard = stage.reached()
            if heard != ([(url, KEY if at_bank[operation] else "")] if expected else []):
                wrong.append(f"{caller}: {operation} of {card_id} reached {heard} with {answer.status}")
            if expected != (answer.status == 200):
                wrong.append(f"{caller}: {operation} of {card_id} is {answer.status}, {answer.reason}")
            if not expected and not shown and answer.status != 404:
                wrong.append(f"{caller}: {operation} of {card_id} tells that it is there: {answer.status}")
            if not expected and not answer.document.get("remedy"):
                wrong.append(f"{caller}: {operation} of {card_id} is refused without a remedy")
            reached, refused = reached + expected, refused + (not expected)
    assert wrong == []
    assert reached > 50 and refused > 50, (reached, refused)


INNER: Mapping[str, tuple[str, str, Any]] = {
    "a batch of inputs": ("EXECUTE", "/cards/translator:both-public", {"action": "pay", "batch": [{}, {"a": 1}]}),
    "BATCH": ("BATCH", "/", {"calls": [{"method": "EXECUTE", "path": "/cards/translator:both-public",
                                             "parameters": {"action": "pay", "parameters": {}}}]}),
    "CHAIN": ("CHAIN", "/", {"steps": [{"method": "EXECUTE", "path": "/cards/translator:both-public",
                                        "parameters": {"action": "pay", "parameters": {}}}]}),
}  # fmt: skip


@pytest.mark.parametrize("way", INNER)
def test_calls_inside_calls_are_judged_alike(stage: Stage, way: str) -> None:
    """Each inner call by itself; with the scope it goes through, so that what is refused is refused for its want."""
    method, path, given = INNER[way]
    for caller, who in CALLERS.items():
        answer = stage.ask(who.as_, method, path, given, task_id="C-1")
        heard = stage.reached()
        if may(who, True, True) and caller != "a claim without the scope":
            assert heard and {url for url, _ in heard} == {f"{BANK}/pay"}, (caller, answer.status, answer.document)
        else:
            assert heard == [], (caller, answer.status)


@pytest.mark.parametrize("client", [{"surface": "registry"}, {"surface": "gateway"}, {"surface": "mcp"}])
def test_surfaces_of_http_are_judged_alike(stage: Stage, client: Mapping[str, str]) -> None:
    """A client with a token calls as its agent, known by the gateway: its scopes decide, and nothing else."""
    for name, reaches in (("demo", False), ("translator", False), ("overseer", False), ("payer", True)):
        agent: TestAgent = stage.people[name]
        peer = Peer(address="203.0.113.7", transport="http", vouched=True, http=dict(client))
        body = {"method": "EXECUTE", "parameters": {"action": "pay"}}
        request = request_of("EXECUTE", "/cards/translator:both", body, {"Agent-ID": agent.agent_id})
        answered = Deferred.fromCoroutine(stage.host.dispatcher.dispatch(request, peer))
        stage.host.clock.settle()
        found: list[Any] = []
        answered.addCallback(found.append)
        assert bool(stage.reached()) is reaches, (name, found)
        assert (found[0].status == 200) is reaches


def test_the_second_address_is_judged_as_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is at the card's address the one below it is called, for a caller with the scope alone."""
    stage = Stage(monkeypatch)
    stage.host.register(given=Kind(f"{OPEN}/a", {"pay": f"{BANK}/missing"}).document("moved"))
    stage.call("payer", "translator:moved", "pay")
    assert stage.reached() == [(f"{BANK}/missing", KEY), (f"{BANK}/missing/invoke", KEY)]
    assert stage.call("translator", "translator:moved", "pay").reason == "scope-required"
    assert stage.reached() == []


def test_a_card_that_changes_is_judged_as_it_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was called a moment ago says nothing of where the card leads now; the public's way ends with the change."""
    stage = Stage(monkeypatch)
    card_id = "translator:open-public"
    assert stage.call("", card_id, "invoke").status == 200 and stage.reached() == [(f"{OPEN}/a", "")]
    changed = Kind(f"{OPEN}/a", {"invoke": f"{BANK}/pay"}).document("open-public")
    answer = stage.host.register(given=changed)
    assert (answer.status, answer.result["public_requested"], "public" in answer.result) == (200, True, False)
    for caller, who in CALLERS.items():
        stage.call(who.as_, card_id, "invoke")
        assert bool(stage.reached()) is may(who, True, False), caller


def test_public_is_the_operators_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent asks; operators decide, of the card that they looked at; no scope of an agent decides it."""
    stage = Stage(monkeypatch)
    host, card_id = stage.host, "translator:open"
    approver = host.agent("approver", scopes=("registry:approve", "registry:register", "inspect:all"))
    etag = host.register(given=KINDS["open"].document("open"), public=True).result["etag"]
    assert host.list(public=True) == host.list() and card_id not in host.list()
    assert host.get(card_id, host.operator, form="entry").result["public_requested"] is True
    for caller in (approver, host.translator, host.demo, stage.people["viewer"]):
        refused = stage.approve(card_id, caller, public=True)
        assert refused.reason == "operators-only", (refused.status, refused.reason)
    plain = stage.approve(card_id)
    assert (plain.status, plain.reason) == (409, "nothing-to-approve") and "public = true" in plain.document["remedy"]
    assert stage.approve(card_id, public=True, digest="0" * 64).reason == "card-changed"
    given = stage.approve(card_id, public=True, digest=etag)
    assert (given.status, given.result["public"], "public_requested" in given.result) == (200, True, False)
    assert card_id in host.list(public=True)
    # Other words for the same thing leave it public; the agent itself may end that, and has to ask again.
    told = {**KINDS["open"].document("open"), "description": "In other words."}
    assert host.register(given=told).result["public"] is True
    assert "public" not in host.register(given=told, public=False).result
    assert host.register(given=told, public=True).result["public_requested"] is True
    assert card_id not in host.list()
    assert host.register(host.operator, told, public=True).result["public"] is True
    assert card_id in host.list(), "an operator who registers it so has decided"
    assert "public" not in stage.approve(card_id, public=False).result and card_id not in host.list()


def test_what_agents_made_public_before_is_not_public_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """A card of an agent in the store that no operator has approved as public is not public, whatever is kept of it."""
    stage = Stage(monkeypatch)
    held = carried(stage.host, "registry", Registry).registered
    value, version = held.item("translator:open")
    value["public"] = True
    (change,) = held.put("translator:open", value, version, None)
    held._on_change("translator:open", type("Item", (), {"value": change.value})())  # type: ignore[arg-type]
    assert "translator:open" not in stage.host.list()
    assert stage.host.get("translator:open").status == 200


def test_who_registers_a_url_needs_the_scopes_of_its_provider(stage: Stage) -> None:
    """The fetch has the operator's credentials as much as a call has."""
    refused = stage.host.call("REGISTER", "/cards", {"url": f"{BANK}/card.json"}, caller=stage.people["translator"])
    assert (refused.reason, refused.document["missing_scopes"]) == ("scope-required", [PAY])


PEER = SimpleNamespace(uri="agtp://10.0.0.5:4490", server_id="back.example.com")


@each_row("named", ["agtp://10.0.0.5:4490", "agtp://Back.Example.com.:4480", "agtp://back.example.com"])
def test_a_host_is_one_place_by_each_of_its_names(named: str) -> None:
    """The scopes of a provider hold for a peer however a card names it, and however the provider does."""
    providers = Providers(MemoryReactor(), [ProviderSection(origin=named.replace(".:", ":"), scopes=(PAY,))])
    peers = CardPeers([PEER], "host.test")  # type: ignore[list-item]
    spelled = ("10.0.0.5:4490/x", "10.0.0.5:04490/cards/y", "back.example.com", "BACK.example.com.:4480/agents/z")
    for endpoint in (f"{scheme}://{each}" for scheme in ("agtp", "AGTP") for each in spelled):
        assert providers.scopes(endpoint, *peers.provider_names(endpoint)) == (PAY,), endpoint
    for elsewhere in ("agtp://10.0.0.5", "agtp://10.0.0.6:4490", "https://back.example.com"):
        assert providers.scopes(elsewhere, *peers.provider_names(elsewhere)) == ()


def test_a_provider_that_changes_is_asked_as_it_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scopes that a provider asks for later hold for the cards that registered before, their makers' included."""
    stage = Stage(monkeypatch)
    settings = {"provider": [{"origin": OPEN, "scopes": [PAY]}, {"origin": BANK}]}
    later = RegistryHost(settings, store=stage.host.store)
    answers = [
        later.call("EXECUTE", f"/cards/translator:{name}", {"parameters": {}}, caller=later.translator)
        for name in ("open", "guarded", "guarded-operation")
    ]
    assert [(each.status, each.reason) for each in answers] == [(262, "scope-required"), (200, ""), (200, "")]
    assert [url for url, _ in stage.reached()] == [f"{BANK}/a", f"{BANK}/pay"]
    assert later.call("EXECUTE", "/cards/translator:open-public", {"parameters": {}}).status == 404, "a stranger"


def test_a_card_that_names_the_host_itself_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """By any name under which its registry or its gateway answers: it would lead in a circle."""
    heard: list[tuple[str, str]] = []
    monkeypatch.setattr(bindings, "ExternalService", lambda reference, fields, *_: Provider(heard, reference, fields))
    registry = {"listen": "tcp:8081:interface=127.0.0.1", "url": "https://self.example.com", "path": "/registry"}
    providers = [{"origin": "https://self.example.com"}, {"origin": OPEN}]
    host = RegistryHost({**registry, "provider": providers})
    for number, url in enumerate(("https://self.example.com/registry/agents/x", "https://SELF.example.com.:443/")):
        made = host.register(given=Kind(url).document(f"circle-{number}"))
        assert made.status == 200, made.explanation
        answer = host.call("EXECUTE", f"/cards/translator:circle-{number}", {"parameters": {}}, caller=host.translator)
        assert (answer.status, answer.reason) == (422, "invocation-too-deep"), answer.explanation
    assert heard == []
