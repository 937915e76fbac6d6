"""Clients of two foreign QUIC libraries, each with its own TLS, call a host with a client certificate."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from agtphost.client.local_identities import certified_agent
from tests import npm, pypi
from tests.protocols.loopback import make_site
from tests.protocols.test_tls import good
from tests.system.hosting import Host, running, sample
from tests.system.test_quic import request

pytestmark = pytest.mark.npm

HERE = Path(__file__).parent
UNKNOWN_AUTHORITY = 0x100 + 48
"""QUIC's code for the alert of TLS."""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with running(sample(tmp_path_factory.mktemp("foreign"), append="\n[quic]\nenabled = true\n")) as host:
        yield host


@pytest.fixture(params=["qh3", "quiche"])
def program(request: pytest.FixtureRequest) -> tuple[list[str], dict[str, str]]:
    """The command of a client, and what its environment has besides; skipped where its library can't be had."""
    try:
        if request.param == "qh3":
            python = pypi.environment("qh3", "qh3==2.1.0") / "python"
            return [str(python), str(HERE / "quic_qh3_client.py")], {}
        modules = npm.document("@infisical/quic", "package.json", "1.0.8").parents[2]
        return [str(npm.node()), str(HERE / "quic_quiche_client.cjs")], {"NODE_PATH": str(modules)}
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"{request.param} cannot be installed: {str(error)[:200]}")


def call(program: tuple[list[str], dict[str, str]], host: Host, certificate: Path, octets: bytes) -> dict[str, Any]:
    """What a client says of one request."""
    command, environ = program
    words = [str(host.port), str(host.state / "ca.pem"), str(certificate), str(certificate.with_suffix(".key"))]
    done = subprocess.run(
        [*command, *words], input=octets, capture_output=True, timeout=60, check=True, env={**os.environ, **environ}
    )
    found: dict[str, Any] = next(json.loads(line) for line in done.stdout.splitlines() if line.startswith(b"{"))
    return found


def test_agent_is_answered_by_its_certificate(program: tuple[list[str], dict[str, str]], host: Host) -> None:
    """The answer is sealed, and its record names the agent, known by its certificate."""
    certificate = host.state / "agents" / "demo" / "agent.pem"
    agent_id = certified_agent(certificate)
    head, _, body = call(program, host, certificate, request(str(agent_id), 1))["answer"].partition("\r\n\r\n")
    line, *lines = head.split("\r\n")
    fields = dict(field.split(": ", 1) for field in lines)
    assert line == "AGTP/1.0 200 OK"
    assert len(body.encode()) == int(fields["Content-Length"])
    assert sha256(fields["Attribution-Record"].encode()).hexdigest() == fields["Audit-ID"]
    record = host.agtp_json("audit", "get", fields["Audit-ID"])
    assert agent_id and agent_id in json.dumps(record) and '"certificate"' in json.dumps(record)


def test_certificate_of_another_authority_is_refused(
    program: tuple[list[str], dict[str, str]], host: Host, tmp_path: Path
) -> None:
    """The host closes the connection with QUIC's code for the alert, and answers nothing."""
    certificate, _ = good(make_site(tmp_path).root).save(tmp_path, "stranger")
    found = call(program, host, certificate, request("ab" * 32, 1))
    assert found["closed"] == UNKNOWN_AUTHORITY and "answer" not in found
