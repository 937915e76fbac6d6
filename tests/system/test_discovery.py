"""Discovery of real hosts: overrides of the operator's, and gates that are shut (API-041, API-056, AGTP-066)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agtphost.client.sync import Client, Reply
from agtphost.contract.reserved import DISCOVERY
from tests.conformance.test_runner import examine, failed
from tests.system.hosting import Host, agtp, running, sample, until

POLICIES = 'agent_disclosure = "public"\n'

FUNCTIONS = '''"""Answers of the operator's own."""


def tools(context):
    return [{"name": "by-hand", "asked_by": context.caller and context.caller.agent_id}]


def no_apis(context):
    return {"apis": []}


def patterns(context):
    return {"rcns_enabled": "yes", "patterns": []}
'''


def configured(directory: Path, *, policies: str = "", append: str = "") -> Path:
    config = sample(directory, edit=[(POLICIES, POLICIES + policies)], append=append)
    (config.parent / "listings.py").write_text(FUNCTIONS)
    return config


def ask(host: Host, path: str, method: str = "DISCOVER", *, named: bool = True) -> Reply:
    folder = host.state / "agents" / "demo"
    identity: dict[str, Any] = {"cert": folder / "agent.pem", "key": folder / "agent.key"} if named else {}
    with Client(trust=host.state / "ca.pem", **identity) as client:
        return client.call(host.uri, method, path)


@pytest.fixture(scope="module")
def overridden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host with one sound override and two that break their contracts."""
    append = """
[policies.builtins]
"/tools" = "listings.tools"
"/apis" = "listings.no_apis"
"/patterns" = "listings.patterns"
"""
    with running(configured(tmp_path_factory.mktemp("overridden"), append=append)) as host:
        yield host


def test_an_override_of_the_configuration_answers(overridden: Host) -> None:
    """API-056: ``[policies.builtins]`` names the function that answers; its answer is sealed like any other."""
    reply = ask(overridden, "/tools")
    assert reply.status == 200 and reply.audit_id
    assert [entry["name"] for entry in json.loads(reply.body)] == ["by-hand"]


def test_a_broken_contract_is_refused_sealed_and_logged(overridden: Host) -> None:
    """API-056: 500 with its reason, and the operator's log says what was wrong."""
    reply = ask(overridden, "/apis")
    assert (reply.status, reply.json()["reason"]) == (500, "builtin-contract-violated")
    assert reply.audit_id and "apis" not in reply.json()
    until(lambda: "the override of DISCOVER /apis answered outside its contract" in overridden.output)


def test_the_conformance_run_notices_a_broken_contract(overridden: Host) -> None:
    """API-056: the runner fails exactly the built-ins whose overrides break their contracts."""
    found = failed(examine(overridden, "discovery.*"))
    assert {"discovery.apis-members", "discovery.patterns"} <= found
    assert found.isdisjoint({"discovery.tools-members", "discovery.agents-members", "discovery.contracts"})


def test_built_ins_stand_in_the_manifest(overridden: Host) -> None:
    """API-041: each of them, overridden or not, is an endpoint of the manifest and an entry of /methods."""
    listed = {(entry["method"], entry["path"]) for entry in ask(overridden, "/", named=False).json()["endpoints"]}
    methods = {(entry["method"], entry["path"]) for entry in json.loads(ask(overridden, "/methods").body)}
    for path in DISCOVERY:
        assert ("DISCOVER", path) in listed and ("DISCOVER", path) in methods


@pytest.mark.parametrize(
    ("line", "said"),
    [('"/genesis" = "listings.tools"', "/genesis"), ('"/tools" = "listings.nothing"', "has no nothing"),
     ('"/tools" = "nowhere.tools"', "nowhere"), ('"/tools" = "listings tools"', "dotted path")],
)  # fmt: skip
def test_an_override_that_cannot_be_is_a_start_error(tmp_path: Path, line: str, said: str) -> None:
    """Evidence is never overridden, and a function that is not there is known before the start."""
    config = configured(tmp_path, append=f"\n[policies.builtins]\n{line}\n")
    done = agtp("check", str(config))
    assert done.returncode != 0 and said in done.stdout + done.stderr


def test_discovery_is_subject_to_the_policy(tmp_path: Path) -> None:
    """API-041: ``disallow = ["DISCOVER"]`` answers 405 on every built-in, and on the manifest."""
    with running(configured(tmp_path, append='\n[policies.methods]\ndisallow = ["DISCOVER"]\n')) as host:
        assert [ask(host, path).status for path in DISCOVERY] == [405] * len(DISCOVERY)
        assert ask(host, "/", named=False).status == 405
        assert ask(host, "/", "DESCRIBE").status == 200


def test_anonymous_discovery_can_be_shut(tmp_path: Path) -> None:
    """AGTP-066: 262 with its reason on every built-in, the manifest included; named callers are answered."""
    with running(configured(tmp_path, policies="anonymous_discovery = false\n")) as host:
        for path in DISCOVERY:
            reply = ask(host, path, named=False)
            assert (reply.status, reply.json()["reason"]) == (262, "anonymous-discovery-disabled")
            assert ask(host, path).status == 200
