"""Built-ins take the parameters that they publish, and no others: AGTP-API sections 5.8, 6.3 and 13.3."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from agtphost.contract import reserved
from agtphost.contract.binding import Binding
from agtphost.contract.built_in_contracts import contract_of
from agtphost.contract.endpoint_table import EndpointTable
from agtphost.contract.policy import MethodPolicy
from agtphost.dispatch.gates import action
from agtphost.dispatch.gates.authority import ClaimedScopesGate
from agtphost.dispatch.gates.endpoint import EndpointGate
from agtphost.identity.peer import Assurance
from agtphost.methods.discovery.filters import CHECKS
from tests.dispatch.hosts import DispatchHost, Recorder, document
from tests.rows import each_row

BUILT_INS = (*reserved.RESERVED, *reserved.OPEN)

DRAFTS = {
    ("QUERY", "/"): "intent scope format confidence_threshold context modality mcp_resource_uri",
    ("DISCOVER", "/"): "criteria filter max_results context tier capabilities scopes geography principal result_type",
    ("DESCRIBE", "/"): "capability_domains version_min context",
    ("INSPECT", "/"): "target audit_id agent_id limit synthesis_id",
    ("SUMMARIZE", "/"): "source length focus format audience",
    ("PLAN", "/"): "goal constraints available_methods context",
    ("PROPOSE", "/"): (
        "proposed_method signature intent contract_version context proposal session_id persistent requested_duration "
        "scope_requested endpoint version lineage name method path description namespace semantic input_schema "
        "output_schema errors handler required_scopes deprecated"
    ),
    ("EXECUTE", "/"): "action parameters payload payload_type idempotency_key context",
    ("DELEGATE", "/"): "target_agent_id task authority_scope delegation_token callback deadline",
    ("ESCALATE", "/"): "task_id reason context priority recipient deadline",
    ("CONFIRM", "/"): "target_id status reason attestation",
    ("SUSPEND", "/"): "session_id reason resume_by checkpoint synthesis_id",
    ("RESUME", "/"): "workflow_id resumption_nonce checkpoint",
    ("NOTIFY", "/"): "recipient content urgency delivery_guarantee expiry",
    ("QUOTE", "/"): "method parameters budget_units cart",
    ("ACTIVATE", "/"): "agent_id reason actor",
    ("DEACTIVATE", "/"): "agent_id reason actor",
    ("REINSTATE", "/"): "agent_id reason actor",
    ("REVOKE", "/"): "agent_id reason actor target synthesis_id mode",
    ("DEPRECATE", "/"): "agent_id reason successor_agent_id migration_deadline actor",
}
"""What the tables of core v08 sections 7.2 and 7.5, methods v01 sections 5.1 and 8.7, and the examples name."""


@cache
def _host() -> DispatchHost:
    """For all: each request has gates of its own."""
    return DispatchHost()


def ask(pair: tuple[str, str], body: dict[str, Any]) -> tuple[int, dict[str, Any], Recorder]:
    """One request of a built-in that answers whatever it is asked."""
    recorder = Recorder()
    method, template = pair
    binding = Binding(method=method, path=template, handler=recorder, tier="A", min_assurance=Assurance.NONE)
    host = _host()
    only = EndpointGate(EndpointTable([binding]), MethodPolicy(), None, ClaimedScopesGate().check)
    host.rewire([only if gate.name == only.name else gate for gate in host.gates])
    response = host.ask(method, re.sub(r"\{\w+\}", "librarian", template), body=body)
    return response.status, document(response), recorder


@each_row("pair", BUILT_INS, ids=" ".join)
def test_each_refuses_what_it_does_not_declare(pair: tuple[str, str]) -> None:
    """422 that names the unknown parameter and the one that was meant, before any handler; and it is no envelope's."""
    declared = sorted(contract_of(*pair).names(pair[1]))
    slip = f"{declared[0]}q"
    status, said, recorder = ask(pair, {"parameters": {slip: 1}})
    assert (status, said["reason"], said["parameter"]) == (422, "unknown-parameter", slip)
    assert said["close_matches"] == [declared[0]]
    assert declared[0] in said["remedy"]
    assert not recorder.calls


@each_row("pair", BUILT_INS, ids=" ".join)
def test_each_takes_what_it_declares(pair: tuple[str, str]) -> None:
    """Every member of the published schema, alone and in an envelope."""
    schema = contract_of(*pair).input_schema(pair[1])
    assert set(schema["properties"]) == contract_of(*pair).names(pair[1])
    for name in schema["properties"]:
        _, said, _ = ask(pair, {"parameters": {name: "x"}})
        assert said.get("reason") != "unknown-parameter", name


@each_row("pair", DRAFTS, ids=" ".join)
def test_what_the_drafts_name_is_declared(pair: tuple[str, str]) -> None:
    """No client that follows a table of the drafts is refused for a parameter of that table."""
    assert set(DRAFTS[pair].split()) <= contract_of(*pair).names(pair[1])


def test_reads_of_other_frameworks_are_declared() -> None:
    """What a QUERY with a modality names, modality by modality."""
    named = {name for each in action.MODALITIES.values() for name in (each.upstream, *each.names)}
    assert named <= contract_of("QUERY", "/").names("/")


def test_words_beside_the_criteria_are_filters() -> None:
    """None is declared that no filter knows: it would be passed over."""
    from agtphost.contract.built_in_contracts import FILTERED

    assert set(FILTERED) <= CHECKS.keys()


def test_unknown_names_are_bounded() -> None:
    """However many and however long: a few are told, cut short."""
    given = {f"{'x' * 10_000}{number}": 1 for number in range(50)}
    status, said, _ = ask(("QUERY", "/"), {"parameters": given})
    assert (status, len(said["parameters"]), len(said["parameter"])) == (422, 5, 64)


def test_an_operators_endpoint_has_its_own_schema() -> None:
    """The control: tiers B and C are not this gate's."""
    recorder = Recorder()
    binding = Binding(method="QUERY", path="/lists", handler=recorder, tier="B", min_assurance=Assurance.NONE)
    assert DispatchHost(bindings=[binding]).ask("QUERY", "/lists", body={"anything": 1}).status == 200


def test_task_and_session_may_stand_beside_the_parameters() -> None:
    """Clients without an envelope: they count as in one, unless the method has a parameter of that name."""
    _, _, recorder = ask(("SUMMARIZE", "/"), {"source": "x", "task_id": "task-7", "session_id": "s-1"})
    assert (recorder.calls[-1].task_id, recorder.calls[-1].session_id) == ("task-7", "s-1")
    _, _, recorder = ask(("ESCALATE", "/"), {"task_id": "task-8", "reason": "scope_limit", "context": {}})
    assert recorder.calls[-1].task_id != "task-8"
    status, said, _ = ask(("SUMMARIZE", "/"), {"source": "x", "task_id": "x" * 200})
    assert (status, said["reason"]) == (400, "invalid-identifier")
