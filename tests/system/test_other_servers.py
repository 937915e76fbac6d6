"""The command line with servers that are not ours: issue 11, item 21."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.client.credentials import create
from tests.system.hosting import agtp
from tests.system.standin_server import AGENT, standing_in


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
