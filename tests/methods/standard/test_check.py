"""CHECK: how something is, component by component (methods v01 section 8.9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from agtphost.contract.binding import Binding
from agtphost.host.services import HostServices
from agtphost.host.upstreams import Upstreams, WebUpstreams
from agtphost.testing import Answer, MemoryHost, TestAgent
from tests.methods.granting_hosts import Shelf


@pytest.fixture(scope="module")
def checked() -> tuple[MemoryHost, TestAgent]:
    host = MemoryHost({"methods": {"standard": ["CHECK"]}, "registry": {}, "host": {"profile": "development"}})
    host.agent("librarian", hosted=True)
    return host, host.agent("shopper")


def ask(checked: tuple[MemoryHost, TestAgent], target: str, **given: Any) -> Answer:
    host, caller = checked
    return host.call("CHECK", "/", {"target": target, **given}, caller=caller)


def test_an_agent_is_checked_with_what_it_needs(checked: tuple[MemoryHost, TestAgent]) -> None:
    """METH-050: shallow is the agent alone; deep has what it cannot work without."""
    shallow = ask(checked, "librarian").result
    assert (shallow["status"], shallow["depth"]) == ("up", "shallow")
    assert [each["component"] for each in shallow["components"]] == ["agent"]
    deep = ask(checked, "/agents/librarian", depth="deep").result
    assert [each["component"] for each in deep["components"]] == ["agent", "store"]
    assert ask(checked, deep["components"][0]["agent_id"]).status == 200


def test_the_host_is_checked(checked: tuple[MemoryHost, TestAgent]) -> None:
    """METH-050: its store, and all of it."""
    host, _ = checked
    assert ask(checked, "store").result["components"] == [{"component": "store", "name": "store", "status": "up"}]
    deep = ask(checked, host.config.host.server_id, depth="deep").result
    assert [each["component"] for each in deep["components"]] == ["host", "store"]


def test_what_is_down_is_told(checked: tuple[MemoryHost, TestAgent], monkeypatch: pytest.MonkeyPatch) -> None:
    """METH-050: the whole is as its worst component."""
    host, _ = checked
    monkeypatch.setattr(type(host.core.services.evidence.ledger), "low", True)
    found = ask(checked, "librarian", depth="deep").result
    assert (found["status"], found["components"][0]["status"]) == ("degraded", "up")


class Silent(Shelf):
    """Three servers that have said nothing of their tools, and why."""

    def tools(self) -> Sequence[Binding]:
        return []

    def upstreams(self) -> Sequence[Mapping[str, object]]:
        return [{"name": name, "state": name} for name in ("idle", "backoff", "failed")]


class SilentHost(MemoryHost):
    """It has them behind it."""

    def upstreams(self, on: HostServices) -> Upstreams:
        return Upstreams(mcp=Silent(), web=WebUpstreams(adapters=(), services=(), a2a={}))  # type: ignore[arg-type]


def test_a_server_that_does_not_come_up_is_down_and_no_stranger() -> None:
    """METH-050: the draft's use case, which processors are there; what they have was never heard."""
    host = SilentHost({"methods": {"standard": ["CHECK"]}})
    desk, caller = host.agent("desk", hosted=True), host.agent("caller")
    assert desk
    statuses = {}
    for name in ("idle", "backoff", "failed"):
        answer = host.call("CHECK", "/", {"target": name}, caller=caller)
        assert answer.status == 200, answer.document
        statuses[name] = answer.result["status"]
    assert statuses == {"idle": "up", "backoff": "down", "failed": "down"}
    deep = host.call("CHECK", "/", {"target": "desk", "depth": "deep"}, caller=caller).result
    servers = [each["name"] for each in deep["components"] if each["component"] == "server"]
    assert (deep["status"], servers) == ("down", ["backoff", "failed"])


def test_what_is_nothing_is_404(checked: tuple[MemoryHost, TestAgent]) -> None:
    """METH-050: and another depth is 422."""
    for target in ("nobody", "files.read_file", "files", "card:nobody", "witness", "0" * 64, "https://x.example/"):
        answer = ask(checked, target)
        assert (answer.status, answer.reason) == (404, "nothing-to-check"), target
    assert ask(checked, "store", depth="profound").status == 422
