"""The command line with servers that are not ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agtphost.conformance.access import Access, Role
from agtphost.conformance.case import Cases
from agtphost.conformance.cases import every_case
from agtphost.conformance.link import Credentials, Endpoint
from agtphost.conformance.runner import CaseResult, Outcome, Plan, causes, run
from agtphost.conformance.target import connect
from agtphost.conformance.verdict import Need
from tests.client.credentials import create
from tests.rows import each_row
from tests.system.hosting import agtp
from tests.system.standin_server import AGENT, REVOKED, standing_in


@dataclass(frozen=True)
class Other:
    """The server that stands in for others, and how it is reached."""

    port: int
    trust: Path

    def agtp(self, *words: str) -> Any:
        """A command in a directory without a host of ours."""
        return agtp(*words, "--cacert", str(self.trust), cwd=self.trust.parent)

    @property
    def uri(self) -> str:
        return f"agtp://127.0.0.1:{self.port}"


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Other]:
    made = create(tmp_path_factory.mktemp("other"))
    with standing_in(made.server.cert, made.server.key) as port:
        yield Other(port=port, trust=made.trust)


def test_parameters_are_sent_as_the_server_reads_them(other: Other) -> None:
    """With the option they arrive; without it the server says what is wrong, and the command repeats it."""
    words = ("call", other.uri, "QUERY", "intent=read", "--agent-id", AGENT)
    done = other.agtp(*words, "--plain-parameters", "--json")
    assert (done.returncode, json.loads(done.stdout)["body"]) == (0, {"intent": "read"}), done.stderr
    refused = other.agtp(*words)
    assert refused.returncode == 1
    assert "[malformed-body]" in refused.stderr
    assert "Parameters are the members of the body here." in refused.stderr


def test_bodies_go_out_as_given(other: Other) -> None:
    """``--data`` is nobody's envelope."""
    done = other.agtp("call", other.uri, "QUERY", "--data", '{"intent":"x"}', "--agent-id", AGENT, "--json")
    assert json.loads(done.stdout)["body"] == {"intent": "x"}, done.stderr


def test_other_commands_speak_to_it_too(other: Other) -> None:
    """A command that makes its own requests sends them in the same form, and reads the refusal's object."""
    done = other.agtp("audit", "get", "f" * 64, "--uri", other.uri, "--agent-id", AGENT, "--plain-parameters")
    assert "record-not-found" in done.stderr, done.stderr


# agtp conformance


ANONYMOUS = {"status.262-anonymous-discovery", "manifest.offered"}
"""Cases whose very subject is a caller without Agent-ID, and which allow no 401."""


def examined(other: Other, *only: str, known: bool = True, **options: Any) -> list[CaseResult]:
    """Cases against the server, as its agent or as nobody."""
    access = Access(
        where=Endpoint(host="127.0.0.1", port=other.port),
        trust=other.trust,
        credentials={Role.AGENT: Credentials(agent_id=AGENT)} if known else {},
        timeout=5,
        **options,
    )
    with connect(access) as target:
        return run(target, every_case(), Plan(only=only), lambda result: None)


def of(results: list[CaseResult], outcome: Outcome) -> set[str]:
    return {result.case.id for result in results if result.outcome is outcome}


def test_no_case_fails_for_its_own_reasons(other: Other) -> None:
    """An Agent-ID is sent where it is asked for, parameters where they are read, and no answer has a case stumble."""
    results = examined(other, plain=True)
    grouped = {cause: {case.id for case in cases} for cause, cases in causes(results)}
    assert grouped["401 agent-id-required"] == ANONYMOUS
    assert "400 malformed-body" not in grouped
    assert not [result.message for result in results if "cannot read" in result.message]
    fine = {
        "wire.pipelined-mixed",
        "wire.pipelined-in-order",
        "wire.one-octet-at-a-time",
        "headers.task-id-echoed",
        "headers.every-server-id",
        "catalog.refused-unknown",
        "status.400-open-brace",
        "status.401-unknown-agent",
        "discovery.methods-members",
    }
    assert fine <= of(results, Outcome.PASSED), fine - of(results, Outcome.PASSED)


def test_without_an_agent_the_same_server_answers_nobody(other: Other) -> None:
    """The control: what the Agent-ID and the plain parameters are good for."""
    results = examined(other, "status.*", "wire.pipelined-*", known=False)
    (cause, cases), *_ = causes(results)
    assert cause == "401 agent-id-required"
    assert {"status.404-unknown-path", "status.459-names-method"} <= {case.id for case in cases}
    assert "wire.pipelined-mixed" in of(results, Outcome.FAILED)


@each_row(
    ("others", "second"),
    [((REVOKED, AGENT), AGENT), ((AGENT, REVOKED), AGENT), ((REVOKED,), None), ((), None)],
)
def test_the_second_agent_is_one_that_the_server_serves(
    other: Other, others: tuple[str, ...], second: str | None
) -> None:
    """One that was revoked is never taken, and where there is no other the cases are not run."""
    access = Access(
        where=Endpoint(host="127.0.0.1", port=other.port),
        trust=other.trust,
        credentials={Role.AGENT: Credentials(agent_id=AGENT)},
        others=[Credentials(agent_id=name) for name in others],
    )
    with connect(access) as target:
        assert target.credentials(Role.SECOND).agent_id == second
        assert target.has(Need.SECOND) == (second is not None)


def test_a_case_that_cannot_go_on_blames_the_refusal(other: Other) -> None:
    """What stops it is the cause, not the exception that it ran into; a success of another shape is told."""
    cases = Cases("own")
    cases.row(
        "refused",
        "AGTP-001",
        "It reads an answer that it does not get.",
        lambda target: target.as_agent("FROBNICATE", "/").value["result"]["x"],
    )
    cases.row(
        "shaped",
        "AGTP-001",
        "It reads an answer of another shape.",
        lambda target: target.as_agent("DISCOVER", "/").value["result"]["x"],
    )
    access = Access(
        where=Endpoint(host="127.0.0.1", port=other.port),
        trust=other.trust,
        credentials={Role.AGENT: Credentials(agent_id=AGENT)},
    )
    with connect(access) as target:
        refused, shaped = run(target, cases, Plan(), lambda result: None)
    assert refused.cause == "459 method-violation"
    assert "cannot read" in shaped.message


def test_failures_are_grouped_by_cause(other: Other) -> None:
    """For people: a line for each cause, with the number of its cases; for machines all of them."""
    words = ("conformance", other.uri, "--agent-id", AGENT, "--only", "path.*", "--only", "catalog.floor-*")
    done = other.agtp(*words)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    at = lines.index("Failed, by cause:")
    assert lines[at + 1].split()[1:3] == ["404", "not-found:"]
    assert " more" in lines[at + 1]
    told = json.loads(other.agtp(*words, "--json").stdout)
    assert sum(len(cause["cases"]) for cause in told["causes"]) == told["failed"] > 20
    assert len(told["causes"]) < 5
