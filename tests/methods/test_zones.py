"""Governance zones hold wherever agents are listed: AGTP-API section 5.8.2, core v08 sections 6.2 and 7.2.2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from agtphost.identity.agents import Agent
from agtphost.identity.canonical import canonical
from agtphost.identity.encoding import decode
from tests.identity.issued import SIGNING, agent, of_agent
from tests.memory import body_of
from tests.methods.floor_hosts import CALLER, FloorHost
from tests.methods.hosts import MethodHost

ME = of_agent(CALLER.agent_id)


def everyone(zone: str | None = "zone:a") -> Sequence[Agent]:
    """Agents of two zones and of none, and a caller of the given one."""
    hosted = [agent(name, hosted=True, zone=of) for name, of in (("near", "zone:a"), ("far", "zone:b"), ("free", None))]
    return [*hosted, replace(CALLER, governance_zone=zone)]


def namespace(on: MethodHost, method: str, **options: Any) -> dict[str, Any]:
    response = on.ask(method, "/agents", **options)
    assert response.status == 200
    return dict(body_of(response))


def labels(document: dict[str, Any]) -> list[str]:
    return sorted(entry["agent_label"] for entry in document["agents"])


@pytest.mark.parametrize("method", ["DESCRIBE", "QUERY"])
def test_the_namespace_document_follows_zones(method: str) -> None:
    """AGTP-188: DESCRIBE and QUERY /agents show whom DISCOVER /agents shows, where the operator filters; else all."""
    on = MethodHost({"policies": {"zone_filtering": True}}, agents=everyone())
    assert labels(namespace(on, method, certificate=ME)) == ["free", "near"]
    assert labels(namespace(on, method)) == ["free"], "a caller of no zone sees no zone"
    wider = MethodHost({"policies": {"zone_filtering": True, "zones": {"zone:a": ["zone:b"]}}}, agents=everyone())
    assert labels(namespace(wider, method, certificate=ME)) == ["far", "free", "near"]
    control = MethodHost(agents=everyone())
    assert labels(namespace(control, method)) == ["far", "free", "near"]


@pytest.mark.parametrize("method", ["DESCRIBE", "QUERY"])
def test_what_is_withheld_leaves_no_mark(method: str) -> None:
    """API-047: the count and the zone of the document are those of the agents in it, and its signature holds."""
    document = namespace(MethodHost({"policies": {"zone_filtering": True}}, agents=everyone()), method, certificate=ME)
    assert document["total_active"] == 2 and document["governance_zone"] == "zone:a"
    assert "far" not in str(document) and "zone:b" not in str(document)
    signature = document.pop("signature")
    assert SIGNING.public.verify(decode(signature["value"]), canonical(document))


def sources(host: FloorHost) -> list[str]:
    found = host.result("QUERY", intent="agent near far free", scope="agents")["results"]
    return sorted(entry["source"] for entry in found)


def test_a_question_finds_no_agent_of_another_zone() -> None:
    """AGTP-188: QUERY searches the hosted agents as candidate search does, filtered or not."""
    for filtering in (False, True):
        chosen = {"policies": {"zone_filtering": filtering}}
        assert sources(FloorHost(chosen, agents=everyone())) == ["/agents/free", "/agents/near"]
    wider = {"policies": {"zones": {"zone:a": ["zone:b"]}}}
    assert sources(FloorHost(wider, agents=everyone())) == ["/agents/far", "/agents/free", "/agents/near"]
    assert sources(FloorHost({"policies": {"zone_filtering": True}}, agents=everyone(None))) == ["/agents/free"]


def test_a_question_finds_no_agent_of_tier_3() -> None:
    """AGTP-169: what is in no public list is in no answer either."""
    near, *others = everyone()
    hidden = replace(near, posture=replace(near.posture, trust_tier=3))
    assert sources(FloorHost(agents=[hidden, *others])) == ["/agents/free"]
