"""An agent that is revoked while it reads a long answer gets all of it, and its connection's next call is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.conftest import QUIC
from tests.protocols.quic.blocking import BlockingQuic
from tests.system.hosting import Host, running, sample
from tests.system.raw_link import RawLink, request

LENGTH = 10_000_000
"""Octets of the answer, which no buffer between host and client holds."""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """The sample host whose ``ECHO /text`` answers with much text."""
    config = sample(tmp_path, append=QUIC)
    handler = config.parent / "handlers" / "text.py"
    handler.write_text(handler.read_text().replace('"text": ctx.input["text"],', f'"text": "x" * {LENGTH},'))
    with running(config) as host:
        yield host


def by_tls(host: Host, octets: bytes, within: Callable[[], None]) -> tuple[bytes, bytes]:
    """Send a request twice on one connection, and revoke within the first answer."""
    with RawLink(host) as link:
        link.send(octets)
        link.wait()
        within()  # The sockets hold a part of the answer; the rest waits in the host.
        first = link.answer()
        link.send(octets)
        second = link.answer()
    assert first is not None and second is not None
    return first.body, second.body


def by_quic(host: Host, octets: bytes, within: Callable[[], None]) -> tuple[bytes, bytes]:
    """Do the same on two streams of one connection."""
    folder = host.state / "agents" / "demo"
    authority = host.state / "ca.pem"
    with BlockingQuic(authority, host.port, certificate=folder / "agent.pem", key=folder / "agent.key") as client:
        answers = client.call(octets, within), client.call(octets)
    first, second = (answer.partition(b"\r\n\r\n")[2] for answer in answers)
    return first, second


@pytest.mark.parametrize("call", [by_tls, by_quic])
def test_a_running_answer_is_whole_and_the_next_call_is_refused(
    host: Host, call: Callable[[Host, bytes, Callable[[], None]], tuple[bytes, bytes]]
) -> None:
    """The call was allowed when it was made, and its record says so: nothing of it is taken back, by either carrier."""
    identity = host.agtp_json("agent", "show", "demo")
    agent_id = identity.get("agent_id") or identity["agent"]["agent_id"]
    octets = request("ECHO", "/text", {"parameters": {"text": "one"}}, Agent_ID=agent_id)

    def revoke() -> None:
        done = host.agtp("agent", "revoke", "demo", "--reason", "test")
        assert done.returncode == 0, done.stdout + done.stderr

    first, second = call(host, octets, revoke)
    answer, refusal = json.loads(first), json.loads(second)
    assert len(answer["result"]["text"]) == LENGTH, first[:300]
    assert refusal["status"] == 410, second[:300]
