"""Lists of a host with 5,000 agents and 5,000 endpoints: no turn of the reactor is long once they were asked for."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from agtphost.contract.binding import Binding
from agtphost.identity.agents import Agent
from agtphost.identity.canonical import canonical
from agtphost.identity.encoding import decode
from agtphost.identity.peer import Assurance, Peer
from agtphost.methods.discovery.namespace import Namespace
from agtphost.vocabulary import media_types
from agtphost.wire.events import Request, Response
from agtphost.wire.headers import Headers
from tests.dispatch.hosts import Recorder
from tests.function_calls import count_functions
from tests.identity.issued import CALLER, DESK, SIGNING, of_agent
from tests.measuring import measured
from tests.methods.hosts import MethodHost
from tests.rows import each_row
from tests.test_parser_bounds import limit

MANY = 5_000


@pytest.fixture(scope="module")
def host() -> MethodHost:
    agents = []
    for number in range(MANY):
        agent_id, name = sha256(str(number).encode()).hexdigest(), f"a{number}"
        document = {**DESK.document, "agent_id": agent_id, "name": name}
        octets = json.dumps(document).encode()
        agents.append(
            replace(DESK, agent_id=agent_id, name=name, document=document, document_octets=octets, genesis=None)
        )
    endpoints = [
        Binding(
            method="QUERY",
            path=f"/things/t{number}",
            handler=Recorder(),
            tier="B",
            description=f"Finds thing {number}.",
            min_assurance=Assurance.NONE,
            state_changing=False,
        )
        for number in range(MANY)
    ]
    return MethodHost(agents=(DESK, CALLER, *agents), endpoints=endpoints)


def ask_and_time(
    host: MethodHost, path: str, body: dict[str, Any] | None, method: str = "DISCOVER"
) -> tuple[Response, float]:
    """The answer, and the seconds of CPU of the longest turn."""
    fields = [("Agent-ID", CALLER.agent_id), ("Content-Type", media_types.AGTP_JSON)]
    octets = b"" if body is None else json.dumps(body).encode()
    request = Request(method=method, path=path, headers=Headers(fields[: 1 + bool(octets)]), body=octets, line=b"x")
    peer = Peer(address="127.0.0.1", certificate=of_agent(CALLER.agent_id))
    answers: list[Response] = []
    begun = time.thread_time()
    Deferred.fromCoroutine(host.dispatcher.dispatch(request, peer)).addCallback(answers.append)  # type: ignore[arg-type]
    longest = time.thread_time() - begun
    for _ in range(10_000):
        if answers:
            break
        begun = time.thread_time()
        host.clock.advance(0.001)
        longest = max(longest, time.thread_time() - begun)
    return answers[0], longest


@measured
@each_row(
    ("path", "body", "least"),
    [
        ("/methods", None, 400_000),
        ("/agents", None, 1_000_000),
        ("/agents", {"result_type": "any"}, 1_000_000),
        ("/", {"criteria": "thing"}, 500),
    ],
    ids=["methods", "agents", "typed", "candidates"],
)
def test_no_list_holds_the_reactor(host: MethodHost, path: str, body: dict[str, Any] | None, least: int) -> None:
    """After the first time; each is as large as it should be."""
    ask_and_time(host, path, body)
    answers = [ask_and_time(host, path, body) for _ in range(3)]
    for answer, _ in answers:
        assert int(answer.status) == 200 and len(answer.body) >= least, answer.body[:200]
    longest = min(seconds for _, seconds in answers)
    print(f"{longest * 1000:.1f} ms")
    assert longest < limit()


FUNCTIONS_PER_AGENT = 10
"""Functions that DESCRIBE /agents may call for each agent whose entry has not changed; it calls eight."""


def count_describe(host: MethodHost) -> int:
    """Return how many functions of Python one DESCRIBE /agents calls: a measure that no busy machine changes."""
    return count_functions(lambda: ask_and_time(host, "/agents", None, "DESCRIBE")).total()


def test_the_namespace_holds_nobody_up(host: MethodHost) -> None:
    """DESCRIBE /agents, whose document is signed: entries are kept, the signature holds, states are new."""
    answer, _ = ask_and_time(host, "/agents", None, "DESCRIBE")
    counted = count_describe(host)
    print(f"{counted / MANY:.1f} functions per agent")
    assert counted < FUNCTIONS_PER_AGENT * MANY
    document = json.loads(answer.body)
    assert document["total_active"] == len(document["agents"]) == MANY + 1
    signature = document.pop("signature")
    assert SIGNING.public.verify(decode(signature["value"]), canonical(document))
    host.put(DESK, "suspended")
    answer, _ = ask_and_time(host, "/agents", None, "DESCRIBE")
    assert json.loads(answer.body)["total_active"] == MANY
    host.put(DESK, "active")


def test_control_a_namespace_that_is_made_anew_is_noticed(host: MethodHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each entry written and put into its canonical form at each request."""
    made = Namespace._entry

    def make_anew(self: Namespace, agent: Agent, *given: Any) -> Any:
        self._entries.pop(agent.agent_id, None)
        return made(self, agent, *given)

    monkeypatch.setattr(Namespace, "_entry", make_anew)
    counted = count_describe(host)
    print(f"{counted / MANY:.1f} functions per agent")
    assert counted > FUNCTIONS_PER_AGENT * MANY
