"""What the host shares with an operator's code, besides the input of a call, is read-only there, or a copy."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import Clock
from zope.interface import implementer

from agtphost.adapters.operator_adapter import OperatorAdapter
from agtphost.audit.observed_records import ObservedRecord
from agtphost.audit.observers import Observers
from agtphost.contract.binding import Resolution
from agtphost.dispatch.gates.plugin import OperatorGate, place_gates
from agtphost.handlers.built_in import BuiltInContext, ask_handler
from agtphost.handlers.context import EndpointContext
from agtphost.handlers.function import RegisteredFunction
from agtphost.iagtp import IRecordObserver
from agtphost.identity.agents import Agent, reconsider
from agtphost.identity.peer import Assurance
from agtphost.testing.identities import Identities
from agtphost.vocabulary.read_only import read_only
from tests.dispatch.hosts import DispatchHost
from tests.dispatch.hosts import document as body_of
from tests.dispatch.test_approved_bindings import Plugin as Adapter
from tests.dispatch.test_plugin_gate import Plugin
from tests.methods.floor_hosts import endpoint

GOOD = {"text": "hello"}
CHANGES: tuple[Callable[[Any], object], ...] = (
    lambda shown: shown.__setitem__("wildcards", True),
    lambda shown: shown.__delitem__("methods"),
    lambda shown: shown.__ior__({"wildcards": True}),
    lambda shown: shown.update(wildcards=True),
    lambda shown: shown.setdefault("wildcards", True),
    lambda shown: shown.pop("methods"),
    lambda shown: shown.popitem(),
    lambda shown: shown.clear(),
    lambda shown: shown["methods"].append("PURCHASE"),
    lambda shown: shown["methods"].extend(["PURCHASE"]),
    lambda shown: shown["methods"].insert(0, "PURCHASE"),
    lambda shown: shown["methods"].__iadd__(["PURCHASE"]),
    lambda shown: shown["methods"].__imul__(2),
    lambda shown: shown["methods"].__setitem__(slice(0, 0), ["PURCHASE"]),
    lambda shown: shown["methods"].__delitem__(slice(None)),
    lambda shown: shown["methods"].remove("QUERY"),
    lambda shown: shown["methods"].pop(),
    lambda shown: shown["methods"].clear(),
    lambda shown: shown["methods"].sort(),
    lambda shown: shown["methods"].reverse(),
)


def known_agent() -> Agent:
    """An agent that was loaded from its documents, as every agent of a host is."""
    return Identities("host.test").agent("shelf", scopes=("a:b",), hosted=True).agent


def serve(agent: Agent, use: Callable[[Any], Any]) -> Any:
    """Have a gate and a handler of an operator use what they get in a call at an agent; return what the last said."""
    told: list[Any] = []

    def answer(context: EndpointContext) -> Mapping[str, Any]:
        told.append(use(context))
        return {}

    host = DispatchHost(answer, hosted=agent)
    gate = OperatorGate(Plugin(lambda view: told.append(use(view))), host.clock, 5.0)
    host.rewire(place_gates(host.gates, [("schema", gate)]))
    assert host.ask(path=f"/agents/{agent.name}/desk", body=GOOD).status == 200
    assert len(told) == 2
    return told[-1]


@pytest.mark.parametrize("change", CHANGES, ids=map(str, range(len(CHANGES))))
def test_an_agents_documents_are_what_was_issued(change: Callable[[Any], object]) -> None:
    """Consent, delegation and rights are read from them for every call: no handler and no gate may change them."""
    agent = known_agent()
    assert agent.genesis is not None
    shapes = [agent.document, agent.received, agent.genesis.members]
    before = copy.deepcopy(shapes)

    def spoil(seen: Any) -> None:
        for shown in (seen.agent.document, seen.agent.received):
            with pytest.raises(TypeError):
                change(shown)
        with pytest.raises(TypeError):
            seen.agent.genesis.members["scope"].append("c:d")

    serve(agent, spoil)
    assert [agent.document, agent.received, agent.genesis.members] == before


def test_an_agents_document_is_read_and_sent_as_any_other() -> None:
    """A handler may answer with it, and change the copies that it makes."""
    agent = known_agent()

    def answer(context: EndpointContext) -> Mapping[str, Any]:
        assert context.agent is not None
        return context.agent.document

    host = DispatchHost(answer, hosted=agent)
    sent = body_of(host.ask(path=f"/agents/{agent.name}/desk", body=GOOD))["result"]
    assert sent == agent.document
    shown = serve(agent, lambda seen: seen.agent.document)
    assert shown == agent.document and json.loads(json.dumps(shown)) == agent.document
    for copied in (copy.deepcopy(shown), pickle.loads(pickle.dumps(shown))):
        copied["methods"].append("PURCHASE")
        copied["wildcards"] = True
        assert copied != shown == agent.document
    for copied in (dict(shown), shown.copy(), copy.copy(shown), shown | {}):
        copied["wildcards"] = True
        assert copied != shown == agent.document


def test_an_agents_document_has_the_posture_that_counts_now() -> None:
    """What a handler gets follows an issuer that was added or taken away, as the host's own documents do."""
    agent = Identities("host.test").agent("shelf", hosted=True, tier=1).agent
    for known in (False, True):
        assert reconsider(agent, issuer_known=known)
        assert serve(agent, lambda seen: seen.agent.document) == agent.document
        assert serve(agent, lambda seen: seen.agent.posture) == agent.posture


def test_an_operators_code_behind_a_built_in_gets_copies() -> None:
    """An override of a method of the host can't change what the host records, and repeats, of the call."""
    given = {"text": "x", "more": {"names": ["a"]}}

    def spoil(context: Any) -> Mapping[str, Any]:
        context.input["more"]["names"].append("b")
        context.input["added"] = True
        context.path_parameters.clear()
        context.forwarded.clear()
        with pytest.raises(TypeError):
            context.caller.document["wildcards"] = True
        return {}

    caller, named, forwarded = known_agent(), {"name": "top"}, {"accept-language": "de"}
    context = BuiltInContext(
        input=given,
        method="QUERY",
        path="/shelf/top",
        path_parameters=named,
        forwarded=forwarded,
        caller=caller,
        assurance=Assurance.CERTIFICATE,
    )
    answers: list[Any] = []
    ensureDeferred(ask_handler(RegisteredFunction(spoil), context)).addCallback(answers.append)
    assert answers == [{}]
    assert given == {"text": "x", "more": {"names": ["a"]}}
    assert (named, forwarded) == ({"name": "top"}, {"accept-language": "de"})


def test_a_plugins_adapter_gets_a_copy_of_the_payload() -> None:
    """The record and RETRY have what the caller sent, whatever the adapter does to it."""
    payload = {"names": ["a"]}

    class Spoiling(Adapter):
        def resolve(self, action: str, payload: Any, server: str | None) -> Resolution:
            payload["names"].append("b")
            payload["added"] = True
            return super().resolve(action, payload, server)

    found = OperatorAdapter(Spoiling(endpoint("EXECUTE", "/own", ""))).resolve("x", payload, None)
    assert found.input == {"names": ["a", "b"], "added": True}
    assert payload == {"names": ["a"]}


def test_an_observer_changes_no_record_for_others() -> None:
    seen: list[Any] = []

    @implementer(IRecordObserver)
    class Spoiling:
        def saw(self, record: ObservedRecord) -> None:
            members: Any = record.members
            seen.append(copy.deepcopy(members))
            members["extra"]["tool"] = "another"
            members.clear()

    clock = Clock()
    observers = Observers(clock, [("a", Spoiling()), ("b", Spoiling())])
    observers.startService()  # type: ignore[no-untyped-call]
    record = ObservedRecord(audit_id="1", issued_at="", jws="", members={"method": "QUERY", "extra": {"tool": "x"}})
    observers.saw(record)
    clock.advance(0)
    assert seen == [record.members] * 2 and record.method == "QUERY"


def test_nested_values_are_read_only_too() -> None:
    value: Any = read_only({"list": [1, {"deep": ["x"]}], "none": None})
    assert value == {"list": [1, {"deep": ["x"]}], "none": None}
    with pytest.raises(TypeError, match="change a copy"):
        value["list"][1]["deep"].append("y")
