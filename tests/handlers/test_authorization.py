"""One certificate has one answer: every kind of caller, put to everything that asks who acts for the people."""

from __future__ import annotations

import ast
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from agtphost.adapters.mcp.approval import APPROVE_SCOPE, ApproveTool
from agtphost.audit.lifecycle import LifecycleTable
from agtphost.audit.state import StateTable
from agtphost.contract.carried_call import ToolAddress
from agtphost.dispatch.gates.discovery import DiscoveryGate
from agtphost.errors import Refusal
from agtphost.handlers.authorization import DECIDE, INSPECT_ALL, Authorization
from agtphost.handlers.built_in import BuiltInContext
from agtphost.handlers.operators import Operator, OperatorAction, OperatorRole, Operators
from agtphost.identity.agents import Agent
from agtphost.identity.directory import AgentDirectory
from agtphost.identity.peer import Assurance, Peer, PeerCertificate
from agtphost.methods.discovery.visibility import PRIVATE, Visibility
from agtphost.methods.domains import Domains
from agtphost.methods.inspection.access import ReadACL
from agtphost.methods.inspection.decisions import Decisions
from agtphost.methods.inspection.inspect import Inspection
from agtphost.methods.inspection.upstreams import UpstreamReport
from agtphost.negotiation.termination import Termination
from agtphost.stores.memory import MemoryStore
from agtphost.upstream.approval import ApproveDefinition
from agtphost.upstream.pins import Pins
from agtphost.vocabulary.reasons import Reason
from tests.identity.issued import CALLER, DESK, REGISTRAR, STRANGER, agent, of_agent, of_key, of_other_kind
from tests.identity.samples import key_of
from tests.methods.hosts import reading
from tests.rows import each_row

PERSON = key_of("person")
AGENTS_OWN = key_of("listed agent")
LISTED = agent("listed", hosted=False)
DIRECTORY = AgentDirectory([DESK, CALLER, LISTED])
AUTHORIZATION = Authorization(Operators.of_keys([PERSON.public.fingerprint, AGENTS_OWN.public.fingerprint]), DIRECTORY)
EVERY_SCOPE = frozenset({INSPECT_ALL, DECIDE, APPROVE_SCOPE, "a2a:upstreams:approve"})


@dataclass(frozen=True)
class Kind:
    """One kind of caller."""

    certificate: PeerCertificate | None = None
    caller: Agent | None = None
    assurance: Assurance = Assurance.NONE
    scopes: frozenset[str] = frozenset()

    def context(self, method: str = "INSPECT", **given: Any) -> BuiltInContext:
        """A call by it."""
        return BuiltInContext(
            input=given,
            method=method,
            path="/",
            caller=self.caller,
            assurance=self.assurance,
            scopes=self.scopes,
            peer=Peer(address="127.0.0.1", certificate=self.certificate),
        )


CERTIFIED = Assurance.CERTIFICATE
KINDS = {
    "nobody": Kind(),
    "header": Kind(caller=CALLER, assurance=Assurance.HEADER, scopes=EVERY_SCOPE),
    "gateway": Kind(caller=CALLER, assurance=Assurance.GATEWAY, scopes=EVERY_SCOPE),
    "agent": Kind(of_agent(CALLER.agent_id), CALLER, CERTIFIED),
    "agent with *:*": Kind(of_agent(CALLER.agent_id), CALLER, CERTIFIED, frozenset({"*:*"})),
    "overseer": Kind(of_agent(CALLER.agent_id), CALLER, CERTIFIED, EVERY_SCOPE),
    "operator": Kind(of_key(PERSON)),
    "operator that is an agent": Kind(of_agent(LISTED.agent_id, AGENTS_OWN), LISTED, CERTIFIED),
    "registrar": Kind(of_key(REGISTRAR)),
    "stranger": Kind(of_key(STRANGER)),
    "other key type": Kind(of_other_kind("ecdsa")),
}

OPERATORS = {"operator", "operator that is an agent"}
OVERSEERS = OPERATORS | {"overseer"}
MANAGERS = OPERATORS | {"registrar"}


def finished(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What it returns; it must not wait for anything."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it waits")


async def _decided(question: Any, peer: Peer) -> Any:
    return SimpleNamespace(document=dict)


def upstreams(kind: Kind) -> object:
    return finished(UpstreamReport([], AUTHORIZATION).read(kind.context()))


def records(kind: Kind) -> object:
    inspection = Inspection(reading(MemoryStore()), ReadACL.OPERATOR_ONLY, AUTHORIZATION)
    return finished(inspection.handle(kind.context(target="checkpoint")))


def _find_tool(name: str) -> ToolAddress:
    raise AssertionError(f"no tool is asked about, and not {name}")


def decision(kind: Kind) -> object:
    decisions = Decisions(
        _decided, DIRECTORY, AUTHORIZATION, find_tool=_find_tool, find_action=lambda action, kind: None
    )
    return finished(decisions(kind.context(agent_id=DESK.agent_id, method="QUERY")))


def domain(kind: Kind) -> object:
    domains = Domains(StateTable(), lambda: [DESK], "acme.tld", AUTHORIZATION)
    return domains(kind.context("DEACTIVATE", org_domain="acme.tld"))


def tool(kind: Kind) -> object:
    return ApproveTool({}, "files.work", None, AUTHORIZATION).handle(kind.context(sha256="0" * 64))


def card(kind: Kind) -> object:
    return ApproveDefinition("a2a", "helper", Pins("a2a", "helper", {}), dict, AUTHORIZATION).handle(kind.context())


def sweep(kind: Kind) -> object:
    contracts: Any = SimpleNamespace(all=list)
    settings: Any = SimpleNamespace(policies=SimpleNamespace(rcns=SimpleNamespace(on_policy_change="grandfather")))
    return Termination(contracts, SimpleNamespace(), settings, AUTHORIZATION).sweep(kind.context())  # type: ignore[arg-type]


def escalation(kind: Kind) -> object:
    if not AUTHORIZATION.decides(kind.context(), DESK.agent_id, ""):
        raise Refusal(Reason.NOT_ENTITLED)
    return None


def private(kind: Kind) -> object:
    visibility = Visibility(LifecycleTable().state_of, disclosure=PRIVATE, authorization=AUTHORIZATION)
    if not visibility.is_entitled(kind.context()):
        raise Refusal(Reason.NOT_ENTITLED)
    return None


def discovery(kind: Kind) -> object:
    exchange: Any = SimpleNamespace(
        binding=SimpleNamespace(tier="A", state_changing=False),
        assurance=kind.assurance,
        peer=kind.context().peer,
        agent=DESK,
        agent_id=None,
    )
    DiscoveryGate(CERTIFIED, AUTHORIZATION).check(exchange)
    return None


PROVEN = OVERSEERS | {"agent", "agent with *:*"}
CALLERS: dict[str, tuple[Callable[[Kind], object], set[str]]] = {
    "INSPECT upstreams": (upstreams, OVERSEERS),
    "operator_only records": (records, OPERATORS),
    "INSPECT decision": (decision, OVERSEERS | MANAGERS),
    "domains": (domain, MANAGERS),
    # `*:*` grants what is not reserved: only inspect:all and rcns:negotiate are (core v08 appendix C).
    "approve a tool": (tool, OVERSEERS | {"agent with *:*"}),
    "approve a card": (card, OVERSEERS | {"agent with *:*"}),
    "sweep contracts": (sweep, OVERSEERS),
    "decide an escalation": (escalation, OVERSEERS | MANAGERS | {"agent with *:*"}),
    "lists of a private host": (private, OVERSEERS),
    "closed discovery": (discovery, PROVEN | MANAGERS | {"gateway"}),
}


@each_row("feature", CALLERS)
@each_row("kind", KINDS)
def test_every_kind_of_caller_at_every_feature(kind: str, feature: str) -> None:
    """Whether it is let in; what it is told then is another test's."""
    ask, admitted = CALLERS[feature]
    try:
        ask(KINDS[kind])
        let_in = True
    except Refusal as refusal:
        let_in = int(refusal.status) not in (401, 403, 262)
    assert let_in == (kind in admitted)


def test_nobody_decides_what_it_escalated_itself() -> None:
    """Not even an agent whose key is an operator's."""
    context = KINDS["operator that is an agent"].context()
    assert AUTHORIZATION.decides(context, DESK.agent_id, "")
    assert not AUTHORIZATION.decides(context, LISTED.agent_id, "")


def test_a_refusal_of_a_listed_operator_names_the_entry_to_change() -> None:
    """A second entry with the same key, which the remedy described before, is a fault of the configuration."""
    listed = Operator(name="anna", key=PERSON.public.fingerprint, role=OperatorRole.VIEWER, listed=True)
    older = Operator(name="viewer-1", key=STRANGER.public.fingerprint, role=OperatorRole.VIEWER)
    authorization = Authorization(Operators([listed, older]), DIRECTORY)
    for key, entry in (
        (PERSON, '[[operator]] name = "anna", role = "administrator".'),
        (STRANGER, f'[[operator]] name = "...", key = "{STRANGER.public.fingerprint}", role = "administrator".'),
    ):
        refusal = authorization.refuse(
            Kind(of_key(key)).context(), OperatorAction.RELOAD, "Only administrators reload."
        )
        assert refusal.remedy.endswith(f"In host.toml: {entry}"), refusal.remedy


def test_no_other_module_decides_who_is_an_operator() -> None:
    """Neither by the scope's name, nor by looking a fingerprint up among those of operators."""
    root = Path(__file__).resolve().parents[2] / "agtphost"
    found = {
        f"{path.relative_to(root)}:{node.lineno}"
        for path in root.rglob("*.py")
        if INSPECT_ALL in (source := path.read_text()) or "operators" in source
        for node in ast.walk(ast.parse(source))
        if _decides(node)
    }
    assert {place.partition(":")[0] for place in found} == {"handlers/authorization.py", "vocabulary/scopes.py"}


def _decides(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return bool(node.value == INSPECT_ALL)
    if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], (ast.In, ast.NotIn)):
        return False
    return "operators" in ast.unparse(node.comparators[0])


def test_such_a_module_would_be_found() -> None:
    """The control: the ways in which it was decided before."""
    for line in ('SCOPE = "inspect:all"', "certificate.fingerprint in self._operators", "key not in operators"):
        assert any(_decides(node) for node in ast.walk(ast.parse(line)))
