"""
Octets at every HTTP listener of a running host that a proxy and a server could read in two ways, and foreign words.

Each case is sent whole and one octet at a time. What is refused has one answer, and the request that stands behind it
is none: the connection ends. What merely claims something has the answer that it would have had without.
"""

from __future__ import annotations

import json
import re
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from agtphost.identity.provisioning import provision_development
from tests.http.framing import CLAIMS, REFUSED, get
from tests.rows import each_row
from tests.system.hosting import Host, free_port, running, sample, until

SETTINGS = """
[log]
access = true

[limits]
header_timeout = 4
body_gap_timeout = 4

[wellknown]
listen = "ssl:{wellknown}:interface=127.0.0.1"

[admin]
listen = "ssl:{admin}:interface=127.0.0.1"

[metrics]
listen = "tcp:{metrics}:interface=127.0.0.1"

[gateway]
listen = "tcp:{gateway}:interface=127.0.0.1"
agent = "demo"

[policies.methods.aliases]
GET = "QUERY"

[a2a.front]
listen = "tcp:{front}:interface=127.0.0.1"
agent_id = "{agent_id}"

[[a2a.front.agent]]
name = "librarian"
method = "ECHO"
path = "/text"
answer = "text"
"""


@dataclass(frozen=True)
class Door:
    """One listener."""

    port: int
    path: str
    tls: bool


@pytest.fixture(scope="module")
def doors() -> dict[str, Door]:
    return {
        "wellknown": Door(free_port(), "/.well-known/agtp", True),
        "admin": Door(free_port(), "/", True),
        "metrics": Door(free_port(), "/metrics", False),
        "gateway": Door(free_port(), "/library/9780141439518", False),
        "front": Door(free_port(), "/.well-known/agent-card.json", False),
    }


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, doors: dict[str, Door]) -> Iterator[Host]:
    config = sample(tmp_path_factory.mktemp("framing"))
    state = config.parent / "state"
    provision_development(state, server_id="localhost", hosted=[config.parent / "agents" / "librarian.agent.json"])
    demo = json.loads((state / "agents/demo/document.json").read_text())["agent_id"]
    ports = {name: door.port for name, door in doors.items()}
    config.write_text(config.read_text() + SETTINGS.format(agent_id=demo, **ports))
    with running(config) as started:
        until(lambda: started.output.count("is served on port") == len(doors))
        yield started


def say(door: Door, text: str, ca: Path, *, pieces: bool) -> bytes:
    """Everything that is answered until the other end closes."""
    octets = text.replace("{port}", str(door.port)).replace("{path}", door.path).encode("latin-1")
    plain = socket.create_connection(("127.0.0.1", door.port), timeout=15)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    context = ssl.create_default_context(cafile=str(ca))
    link = context.wrap_socket(plain, server_hostname="localhost") if door.tls else plain
    got = b""
    with link:
        try:
            for piece in [octets[at : at + 1] for at in range(len(octets))] if pieces else [octets]:
                link.sendall(piece)
            while more := link.recv(65_536):
                got += more
        except TimeoutError:
            got += b"HTTP/1.1 999 Nothing"
        except (ConnectionError, ssl.SSLError):
            # It has answered and gone while we went on; what it said may have been taken from us by that.
            pass
    return got


def answers(octets: bytes) -> list[int]:
    """The statuses."""
    return [int(found) for found in re.findall(rb"HTTP/1\.1 (\d{3}) ", octets)]


@each_row("pieces", [False, True], ids=["whole", "octet by octet"])
@each_row("name", ["wellknown", "admin", "metrics", "gateway", "front"])
def test_what_can_be_read_in_two_ways_is_refused(host: Host, doors: dict[str, Door], name: str, pieces: bool) -> None:
    """One answer, of the refusal, and nothing of what stands behind it."""
    door, ca = doors[name], host.state / "ca.pem"
    behind = get("X-Behind: it")
    # A head of thousands of octets has thousands of segments; it is in the other run.
    cases = {case: row for case, row in REFUSED.items() if not pieces or len(row[0]) < 1000}

    def done(case: str) -> str:
        text, expected = cases[case]
        got = answers(say(door, text + behind, ca, pieces=pieces))
        # Who goes on sending for seconds may be cut before it reads; it is not answered anything else.
        fine = len(got) == 1 and got[0] in expected
        return "" if fine or (pieces and not got) else f"{case}: {got}"

    with ThreadPoolExecutor(8) as pool:
        wrong = [told for told in pool.map(done, cases) if told]
    assert wrong == []


@each_row("name", ["wellknown", "admin", "metrics", "gateway", "front"])
def test_what_is_claimed_changes_nothing(host: Host, doors: dict[str, Door], name: str) -> None:
    """The answer is that of a request without the claims; whole, and octet by octet."""
    door, ca = doors[name], host.state / "ca.pem"

    def heads(octets: bytes) -> tuple[list[int], bytes]:
        head, _, body = octets.partition(b"\r\n\r\n")
        dated = re.sub(rb"(?m)^(agtphost|python|process|#).*\n", b"", body) if name == "metrics" else body
        return answers(head), re.sub(rb"[0-9]", b"", dated)

    plain = heads(say(door, get("Connection: close"), ca, pieces=False))
    assert plain[0] in ([200], [401], [303])
    for claim, fields in CLAIMS.items():
        closing = fields if any(field.startswith("Connection") for field in fields) else (*fields, "Connection: close")
        for pieces in (False, True):
            assert heads(say(door, get(*closing), ca, pieces=pieces)) == plain, claim


def test_the_controls(host: Host, doors: dict[str, Door]) -> None:
    """A good request behind a good one is answered: that there is one answer above is not for want of asking."""
    for door in doors.values():
        got = answers(say(door, get() + get("Connection: close"), host.state / "ca.pem", pieces=False))
        assert len(got) == 2
        assert set(got) <= {200, 401, 303}
    until(lambda: '"kind":"http"' in host.output)
    assert "X-Behind" not in host.output
    assert "Traceback" not in host.output
