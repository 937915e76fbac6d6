"""A host in a process of its own that also listens for QUIC."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.protocols.quic.blocking import BlockingQuic
from tests.system.hosting import running, sample, until


def request(agent_id: str, number: int) -> bytes:
    """A request of an agent."""
    lines = ("AGTP/1.0 DESCRIBE /", f"Agent-ID: {agent_id}", f"Task-ID: task-quic-{number}", "Content-Length: 0")
    return "\r\n".join((*lines, "", "")).encode()


def test_agent_is_answered_over_quic_until_it_is_revoked(tmp_path: Path) -> None:
    """A call over QUIC is sealed as one over TLS is; once the agent is revoked, the open connection is refused."""
    with running(sample(tmp_path, append="\n[quic]\nenabled = true\n")) as host:
        until(lambda: "listening for QUIC" in host.output)
        folder = host.state / "agents" / "demo"
        identity = host.agtp_json("agent", "show", "demo")
        agent_id = identity.get("agent_id") or identity["agent"]["agent_id"]
        with BlockingQuic(
            host.state / "ca.pem", host.port, certificate=folder / "agent.pem", key=folder / "agent.key"
        ) as client:
            answer = client.call(request(agent_id, 1))
            assert answer.startswith(b"AGTP/1.0 200"), answer[:500]
            assert b"Audit-ID:" in answer or b"audit-id:" in answer.lower()
            done = host.agtp("agent", "revoke", "demo", "--reason", "test")
            assert done.returncode == 0, done.stdout + done.stderr
            assert client.call(request(agent_id, 2)).startswith(b"AGTP/1.0 410")
        assert host.stop() == 0


@pytest.mark.release
def test_host_without_quic_does_not_load_the_library() -> None:
    """What a host is made of does not import aioquic; only a listener that is enabled does."""
    code = "import sys, agtphost.tap, agtphost.host.assembly; sys.exit('aioquic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
