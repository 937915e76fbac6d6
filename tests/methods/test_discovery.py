"""DISCOVER: what is listed, to whom, and that it is exactly what can be called (design decisions 5 and 14)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from zope.interface.verify import verifyObject

from agtphost.audit.lifecycle import LifecycleTable
from agtphost.contract.binding import Binding
from agtphost.contract.reserved import DISCOVERY
from agtphost.dispatch.invocation import Invocation
from agtphost.handlers.built_in import IBuiltInHandler
from agtphost.identity.directory import AgentDirectory
from agtphost.identity.genesis import Genesis
from agtphost.identity.peer import Assurance, PeerCertificate
from agtphost.identity.trust import TrustPosture
from agtphost.methods.discovery import discover
from agtphost.methods.discovery.discover import Discovery
from agtphost.methods.discovery.visibility import Visibility
from agtphost.methods.overrides import POSTURE
from agtphost.vocabulary.status import Status
from tests.dispatch.hosts import Recorder
from tests.identity.issued import BARE, CALLER, DESK, STRANGER, agent, of_agent, of_key
from tests.memory import body_of
from tests.methods.hosts import MCP, MethodHost, Toolbox
from tests.programmes import length
from tests.rows import each_row

AS_CALLER = of_agent(CALLER.agent_id)
BY_NAME = {"Agent-ID": CALLER.agent_id}


def test_a_caller_that_names_no_agent_gets_the_manifest() -> None:
    """Design decision 5: DISCOVER / without Agent-ID is the manifest, with its own media type."""
    response = MethodHost().ask("DISCOVER")
    assert [entry["name"] for entry in body_of(response)["hosted_agents"]] == ["bare", "desk"]
    assert response.headers.get("content-type") == "application/vnd.agtp.manifest+json"


def test_a_caller_that_names_itself_gets_the_directory() -> None:
    """Design decision 5: DISCOVER / with Agent-ID is the list of built-in paths."""
    response = MethodHost().ask("DISCOVER", headers=BY_NAME)
    assert body_of(response) == {"directory": [{"path": path, "tier": "A"} for path in DISCOVERY]}


def test_a_certificate_alone_still_reads_the_manifest() -> None:
    """A verifying client needs the signing keys over the connection that it has: only the header decides."""
    assert body_of(MethodHost().ask("DISCOVER", certificate=AS_CALLER))["manifest_signature"]


@each_row("path", DISCOVERY)
def test_anonymous_discovery_can_be_shut(path: str) -> None:
    """``anonymous_discovery = false``: 262 with a reason for callers without an agent, on every path."""
    host = MethodHost({"policies": {"anonymous_discovery": False}})
    response = host.ask("DISCOVER", path)
    assert (response.status, body_of(response)["reason"]) == (262, "anonymous-discovery-disabled")
    assert host.ask("DISCOVER", path, certificate=of_key(STRANGER)).status == 262
    assert host.ask("DISCOVER", path, headers=BY_NAME).status == 401, "a name that nothing proves"
    assert host.ask("DISCOVER", path, certificate=AS_CALLER).status in (200, 404)


@pytest.mark.parametrize("body", [{"target": "methods"}, {"criteria": "room"}, {"result_type": "any"}])
def test_no_form_of_asking_goes_round_it(body: dict[str, str]) -> None:
    """AGTP-066: neither the body form nor a search is answered to callers without an agent."""
    assert MethodHost({"policies": {"anonymous_discovery": False}}).ask("DISCOVER", "/", body).status == 262
    relaxed = MethodHost({"policies": {"anonymous_discovery": False}}, floor=Assurance.HEADER)
    assert relaxed.ask("DISCOVER", "/", body, headers=BY_NAME).status == 200, "in development"


@each_row(
    ("disclosure", "certificate", "seen"),
    [
        ("public", None, True),
        ("public", AS_CALLER, True),
        ("authenticated", None, False),
        ("authenticated", of_key(STRANGER), False),
        ("authenticated", AS_CALLER, True),
        ("private", None, False),
        ("private", AS_CALLER, False),
    ],
)
def test_who_sees_the_hosted_agents(disclosure: str, certificate: PeerCertificate | None, seen: bool) -> None:
    """The three disclosure levels, in DISCOVER /agents and in the manifest alike; a header alone proves nothing."""
    host = MethodHost({"policies": {"agent_disclosure": disclosure}})
    names = [entry["name"] for entry in body_of(host.ask("DISCOVER", "/agents", certificate=certificate))]
    assert names == (["bare", "desk"] if seen else [])
    assert bool(body_of(host.ask("DISCOVER", certificate=certificate))["hosted_agents"]) is seen
    if disclosure == "authenticated":
        assert body_of(host.ask("DISCOVER", "/agents", headers=BY_NAME)) == []


def test_an_agents_entry_agrees_with_its_identity_document() -> None:
    """AGTP-API section 5.8.2: what /agents says of an agent is what its documents say; callers are not listed."""
    entries = {entry["name"]: entry for entry in body_of(MethodHost().ask("DISCOVER", "/agents"))}
    assert set(entries) == {"desk", "bare"}
    entry = entries["desk"]
    document = body_of(MethodHost().ask("DESCRIBE", "/agents/desk"))
    assert entry["agent_id"] == document["agent_id"]
    assert entry["trust_tier"] == document["trust_tier"] == 2
    assert entry["trust_warning"] == "verification-incomplete"
    assert entry["verification_path"] == document["verification_path"]
    assert entry["methods_count"] == len(document["methods"])
    assert entry["uri"] == "/agents/desk"
    assert (entry["skills_summary"], entry["owner_id"]) == (DESK.description, DESK.owner_id)
    assert DESK.description and document["owner_id"] == DESK.owner_id


@pytest.mark.parametrize("path", ["/agents/desk/genesis", f"/agents/{DESK.agent_id}/genesis"])
def test_a_genesis_is_served_octet_for_octet(path: str) -> None:
    """API-042: by label or Agent-ID, the octets as loaded, which verify."""
    response = MethodHost().ask("DISCOVER", path)
    assert DESK.genesis is not None
    assert response.body == DESK.genesis.octets
    assert Genesis.load(response.body).agent_id == DESK.agent_id


POSTURES = st.builds(
    TrustPosture,
    trust_tier=st.sampled_from([1, 2]),
    verification_path=st.sampled_from(["dns-anchored", "log-anchored", "hybrid", "org-asserted"]),
    owner_id=st.none() | st.just("acme.tld"),
    trust_warning=st.none() | st.sampled_from(["verification-incomplete", "trust-score-degraded", "said-so"]),
)


def contradictions(posture: TrustPosture) -> list[str]:
    """What DISCOVER /agents and a search say of an agent's trust otherwise than its Identity Document."""
    members = {name: value for name, value in DESK.document.items() if name not in POSTURE}
    claimed = {**DESK.received, "trust_tier": 1, "verification_path": "hybrid", "trust_warning": "none"}
    whole = {**members, **posture.fields()}
    desk = replace(DESK, posture=posture, owner_id=posture.owner_id, document=whole, received=claimed)
    host = MethodHost(agents=(desk, CALLER))
    served = body_of(host.ask("DESCRIBE", "/agents/desk"))
    entry = body_of(host.ask("DISCOVER", "/agents"))[0]
    found = body_of(host.ask("DISCOVER", "/", {"criteria": "desk", "filter": {"kinds": ["agent"]}}))
    candidate = found["result"]["results"][0]
    wrong = [f"/agents: {name}" for name in POSTURE if entry.get(name) != served.get(name)]
    shown = ("trust_tier", "trust_warning")
    return wrong + [f"search: {name}" for name in shown if candidate.get(name) != served.get(name)]


@pytest.mark.programme
@settings(max_examples=length(40, 1200), deadline=None)
@given(posture=POSTURES)
def test_lists_never_disagree_with_the_identity_document(posture: TrustPosture) -> None:
    """API-046, API-045: for any posture, whatever the document claimed, a warning below and beside tier 2 included."""
    assert contradictions(posture) == []


def test_a_list_that_shows_warnings_of_tier_2_alone_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the property notices an entry that leaves out what the document says."""
    real = discover.agent_entry
    monkeypatch.setattr(
        discover,
        "agent_entry",
        lambda agent, accepted: {
            name: value
            for name, value in real(agent, accepted).items()
            if name != "trust_warning" or agent.posture.trust_tier == 2
        },
    )
    degraded = TrustPosture(trust_tier=1, verification_path="hybrid", trust_warning="trust-score-degraded")
    assert contradictions(degraded) == ["/agents: trust_warning"]


def test_a_path_says_whose_genesis_is_meant() -> None:
    """AGTP-API section 5.8.1: the agent that the path addresses, even for a caller that is hosted here itself."""
    other = agent("other", hosted=True)
    host = MethodHost(agents=(DESK, other, CALLER))
    for path, whose in (("/agents/other/genesis", other), ("/genesis", DESK), ("/agents/desk/genesis", DESK)):
        response = host.ask("DISCOVER", path, certificate=of_agent(DESK.agent_id))
        assert Genesis.load(response.body).agent_id == whose.agent_id


@pytest.mark.parametrize("path", ["/genesis", "/agents/bare/genesis"])
def test_no_genesis_is_404(path: str) -> None:
    """API-043: 404 where none is loaded, or where no agent is addressed."""
    response = MethodHost().ask("DISCOVER", path)
    assert (response.status, body_of(response)["reason"]) == (404, "genesis-not-loaded")


def test_the_only_agent_needs_no_name() -> None:
    """Design decision 5: a host with one agent serves its Genesis on the bare path."""
    assert MethodHost(agents=(DESK, CALLER)).ask("DISCOVER", "/genesis").status == 200


def test_a_tool_is_listed_with_what_calling_it_needs() -> None:
    """AGTP-API section 5.8.4: MCP's own shape, and the scopes and assurance besides."""
    host = MethodHost(adapter=Toolbox(tool("files.read", ("mcp:tools:execute",), Assurance.CERTIFICATE)))
    entry = body_of(host.ask("DISCOVER", "/tools", certificate=AS_CALLER))[0]
    assert entry == {
        "name": "files.read",
        "description": "",
        "required_scopes": ["mcp:tools:execute"],
        "min_assurance": "certificate",
        "path": "/",
        "action": "mcp.tools.call",
        "payload_type": "application/vnd.mcp.tools+json",
        "payload": {"tool": "files.read"},
        "arguments_member": "arguments",
        "input_schema": {"type": "object"},
        "inputSchema": {"type": "object"},
    }
    methods = body_of(host.ask("DISCOVER", "/methods", certificate=AS_CALLER))
    assert {
        "method": "EXECUTE",
        "path": "/",
        "description": "",
        "tier": "B",
        "tool": "files.read",
        "action": "mcp.tools.call",
        "payload_type": MCP,
        "payload": {"tool": "files.read"},
        "arguments_member": "arguments",
    } in methods


# Listed if and only if callable


RECORDER = Recorder(lambda context: {"done": True})
TOKENS = ["booking:desk", "booking:*", "mcp:tools:execute", "documents:query", "rcns:negotiate"]
GRANTS = [*TOKENS, "*:*", "mcp:*"]


def tool(name: str, scopes: tuple[str, ...], assurance: Assurance, agents: frozenset[str] = frozenset()) -> Binding:
    """A hosted tool."""
    return Binding(
        method="EXECUTE",
        path="/",
        handler=RECORDER,
        tier="B",
        name=name,
        required_scopes=scopes,
        scope_status=Status.SCOPE_VIOLATION,
        min_assurance=assurance,
        agents=agents,
        details={"action": "mcp.tools.call", "inputSchema": {"type": "object"}},
    )


needs = st.tuples(
    st.lists(st.sampled_from(TOKENS), max_size=2, unique=True).map(tuple),
    st.sampled_from(Assurance),
    st.sampled_from([frozenset(), frozenset({DESK.agent_id}), frozenset({BARE.agent_id})]),
)


@st.composite
def situations(draw: st.DrawFn) -> dict[str, Any]:
    """A caller, how it is known, what it claims, whom it addresses, and what is bound."""
    return {
        "declared": draw(st.lists(st.sampled_from(GRANTS), max_size=3, unique=True)),
        "committed": draw(st.lists(st.sampled_from(GRANTS), min_size=0, max_size=3, unique=True)),
        "known": draw(st.sampled_from(["anonymous", "header", "certificate", "other key"])),
        "claim": draw(st.none() | st.lists(st.sampled_from(TOKENS), max_size=2, unique=True)),
        "addressed": draw(st.sampled_from(["", "/agents/desk", "/agents/bare"])),
        "state": draw(st.sampled_from(["active", "suspended", "deprecated", "retired"])),
        "caller state": draw(st.sampled_from(["active", "active", "suspended"])),
        "endpoints": draw(st.lists(needs, max_size=3)),
        "tools": draw(st.lists(needs, max_size=3)),
        "floor": draw(st.sampled_from([None, Assurance.HEADER])),
    }


def play_situation(situation: dict[str, Any]) -> tuple[MethodHost, dict[str, Any], list[Binding], list[Binding]]:
    """The host of a situation, and how its caller asks."""
    endpoints = [
        Binding(
            method="QUERY",
            path=f"/e{number}",
            handler=RECORDER,
            tier="B",
            required_scopes=scopes,
            min_assurance=assurance,
            agents=agents,
            state_changing=False,
        )
        for number, (scopes, assurance, agents) in enumerate(situation["endpoints"])
    ]
    tools = [
        tool(f"files.t{number}", scopes, assurance, agents)
        for number, (scopes, assurance, agents) in enumerate(situation["tools"])
    ]
    caller = agent("demo", hosted=False, scopes=situation["declared"])
    adapter, agents = Toolbox(*tools), (DESK, BARE, caller)
    host = MethodHost(agents=agents, endpoints=endpoints, adapter=adapter, floor=situation["floor"])
    host.put(DESK, situation["state"])
    host.put(caller, situation["caller state"])
    options: dict[str, Any] = {"headers": {}}
    if situation["known"] == "header":
        options["headers"]["Agent-ID"] = caller.agent_id
    elif situation["known"] == "certificate":
        options["certificate"] = of_agent(caller.agent_id, commitment=situation["committed"])
    elif situation["known"] == "other key":
        options["certificate"] = of_key(STRANGER)
    if situation["claim"] is not None:
        options["headers"]["Authority-Scope"] = ", ".join(situation["claim"])
    return host, options, endpoints, tools


def disagreements(situation: dict[str, Any]) -> list[str]:
    """Everything that is listed and cannot be called, or the other way round."""
    host, options, endpoints, tools = play_situation(situation)
    prefix = situation["addressed"]

    def listing(path: str) -> list[dict[str, Any]]:
        response = host.ask("DISCOVER", prefix + path, **options)
        return body_of(response) if response.status == 200 else []

    def runs(method: str, path: str, body: dict[str, Any] | None = None) -> bool:
        before = len(RECORDER.calls)
        host.ask(method, prefix + path, body, **options)
        return len(RECORDER.calls) > before

    methods = listing("/methods")
    listed_endpoints = {entry["path"] for entry in methods if entry["method"] == "QUERY"}
    listed_tools = {entry["name"] for entry in listing("/tools")}
    wrong = [binding.path for binding in endpoints if (binding.path in listed_endpoints) != runs("QUERY", binding.path)]
    if listed_tools != {entry["tool"] for entry in methods if "tool" in entry}:
        wrong.append("/tools and /methods differ")
    for binding in tools:
        body = {"action": "mcp.tools.call", "payload_type": MCP, "payload": {"tool": binding.name}}
        if (binding.name in listed_tools) != runs("EXECUTE", "/", body):
            wrong.append(binding.name)
    if methods:
        described = body_of(host.ask("DESCRIBE", "/", **options)) if not prefix else None
        if described is not None and set(described["result"]["tools"]) != listed_tools:
            wrong.append("DESCRIBE")
    return wrong


@pytest.mark.programme
@settings(max_examples=length(60, 2400), deadline=None)
@given(situation=situations())
def test_listed_if_and_only_if_callable(situation: dict[str, Any]) -> None:
    """
    Design decision 14: for any caller, scopes, assurance, addressee and state,
    DISCOVER /methods, DISCOVER /tools and DESCRIBE show exactly what a call
    gets through every gate with.

    Where headers are not believed, a caller known by a header alone that claims more than the agent has is a nameless
    one, in lists as in calls.
    """
    assert disagreements(situation) == []


@pytest.mark.parametrize(
    ("known", "needed", "state"),
    [
        ("anonymous", ((), Assurance.NONE, frozenset()), "active"),
        ("certificate", ((), Assurance.NONE, frozenset()), "suspended"),
        ("certificate", (("booking:desk",), Assurance.CERTIFICATE, frozenset()), "active"),
    ],
)
def test_listed_if_and_only_if_callable_at_known_corners(known: str, needed: Any, state: str) -> None:
    """Corners that lists once got wrong: a tool open to everyone, a suspended addressee, a commitment to nothing."""
    situation = {
        "declared": ["booking:*"],
        "committed": [],
        "known": known,
        "claim": None,
        "addressed": "/agents/desk",
        "state": state,
        "caller state": "active",
        "endpoints": [needed],
        "tools": [needed],
        "floor": None,
    }
    assert disagreements(situation) == []
    assert disagreements({**situation, "committed": ["booking:*"]}) == []


@pytest.mark.parametrize("assurance", [Assurance.NONE, Assurance.HEADER])
def test_a_header_that_claims_too_much_is_a_stranger(assurance: Assurance) -> None:
    """A caller known by a header that claims more than the agent has calls what is listed to it; proven, it is 455."""
    reader = tool("files.read", (), assurance)
    caller = agent("demo", hosted=False, scopes=["booking:desk"])
    host = MethodHost(agents=(DESK, BARE, caller), adapter=Toolbox(reader))
    claims = {"Agent-ID": caller.agent_id, "Authority-Scope": "documents:query"}
    body = {"action": "mcp.tools.call", "payload_type": MCP, "payload": {"tool": "files.read"}}
    listed = body_of(host.ask("DISCOVER", "/tools", headers=claims))
    assert [entry["name"] for entry in listed] == ["files.read"]
    assert host.ask("EXECUTE", "/", body, headers=claims).status == 200
    proven = host.ask("EXECUTE", "/", body, headers=claims, certificate=of_agent(caller.agent_id))
    assert (proven.status, body_of(proven)["reason"]) == (262, "scope-claim-invalid")
    malformed = host.ask("EXECUTE", "/", body, headers={**claims, "Authority-Scope": ",,;"})
    assert malformed.status == 400


def test_a_list_by_declared_scopes_alone_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: lists that do not ask the gates show what cannot be called, and the property says so."""
    monkeypatch.setattr(Invocation, "admits", lambda self, binding: True)
    situation = {
        "declared": [],
        "committed": [],
        "known": "header",
        "claim": None,
        "addressed": "",
        "state": "active",
        "caller state": "active",
        "endpoints": [(("booking:desk",), Assurance.HEADER, frozenset())],
        "tools": [((), Assurance.CERTIFICATE, frozenset())],
        "floor": None,
    }
    assert disagreements(situation) == ["/e0", "files.t0"]


def test_the_handler_is_one() -> None:
    """The handler keeps to its interface."""
    handler = Discovery(AgentDirectory([]), list, (), lambda *_: {}, Visibility(LifecycleTable().state_of))
    assert verifyObject(IBuiltInHandler, handler)


def test_a_kept_list_of_agents_is_made_again_when_something_in_it_changed() -> None:
    """It is kept for one authority and ``result_type``; states, manifests and agents that are listed no more count."""
    shop = replace(DESK, role="merchant")
    host = MethodHost(agents=(shop, BARE, CALLER))

    def listed(kind: str = "any") -> tuple[bytes, dict[str, Any]]:
        body = {"result_type": kind} if kind else None
        response = host.ask("DISCOVER", "/agents", body, certificate=AS_CALLER)
        assert isinstance(response.body, bytes)
        return response.body, {entry["name"]: entry for entry in body_of(response)}

    octets, before = listed()
    assert listed()[0] is octets, "the list is kept"
    assert "manifest" in before["desk"] and "manifest" not in listed("")[1]["desk"]
    assert [*listed("merchant")[1]] == ["desk"]
    assert listed("")[1]["bare"]["lifecycle_state"] == "active"
    host.put(shop, "deprecated")
    assert listed("")[1]["desk"]["lifecycle_state"] == "deprecated"
    deprecated = listed()[1]["desk"]["manifest_fingerprint"]
    # The same state since another moment, which the manifest says.
    host.put(shop, "deprecated", since="2026-05-01T00:00:00Z")
    fingerprints = {each["desk"]["manifest_fingerprint"] for each in (before, listed()[1])}
    assert deprecated not in fingerprints and len(fingerprints) == 2
    host.put(BARE, "suspended")
    assert "bare" not in listed("")[1]
    # As many agents as before, with the same states.
    host.put(shop, "suspended")
    host.put(BARE, "deprecated")
    assert {"desk", "bare"} & {*listed("")[1]} == {"bare"}
