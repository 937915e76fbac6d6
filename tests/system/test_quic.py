"""A host in a process of its own that also listens for QUIC, called by the command and by others."""

from __future__ import annotations

import base64
import json
import os
import re
import runpy
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agtphost.client import sync
from agtphost.client.carriers import OVERTAKEN, CarrierFiles
from agtphost.client.requests import Destination
from agtphost.identity.certificates import create_authority
from tests import forking
from tests.bridge.test_stdio import ENVELOPE
from tests.protocols.quic.blocking import BlockingQuic
from tests.system.hosting import BIN, Host, agtp, running, sample
from tests.system.pages import blocks, playing, shows, steps

PAGE = "quic.rst"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """The sample host with the page's section; the last test revokes its agent."""
    with running(sample(tmp_path_factory.mktemp("quic"), append="\n[quic]\nenabled = true\n")) as host:
        assert f"agtphost ready: agtp://127.0.0.1:{host.port}, quic (server " in host.output
        yield host
        assert host.stop() == 0


def test_the_page_is_played(host: Host, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``docs/quic.rst``: a call over QUIC, a program, and the error of a host that does not listen for it."""
    called, refused = steps(PAGE)
    port = re.compile(rf"127\.0\.0\.1:{host.port}\b")
    with playing([called, refused]) as player:
        shows(called, *player.type(called, host.config.parent))
        # The same deployment at a port where TCP alone is answered.
        with socket.create_server(("127.0.0.1", 0)) as listener:
            shutil.copytree(host.config.parent, tmp_path / "etc", ignore=shutil.ignore_patterns("*.db*", "*.sock"))
            config = tmp_path / "etc" / "host.toml"
            other = listener.getsockname()[1]
            config.write_text(config.read_text().replace(f"port = {host.port}", f"port = {other}"))
            status, output = player.type(refused, tmp_path / "etc")
        shows(refused, status, output.replace(f":{other}", ":4480"))
        assert not port.search(output)
    [program] = [block for block in blocks(PAGE) if block.startswith("from agtphost")]
    (tmp_path / "program.py").write_text(program)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(host.config.parent)
        runpy.run_path(str(tmp_path / "program.py"))
    assert capsys.readouterr().out.split("\n") == ["call 0", "call 1", "call 2", ""]


def test_answers_are_those_of_tls(host: Host) -> None:
    """With ``--json`` both carriers print the same, but for identifiers and times; refusals too have their status."""

    def answered(*words: str) -> tuple[object, ...]:
        done = host.agtp("call", "-", *words, "--json")
        found = json.loads(done.stdout)
        body = found.get("body", found)
        shown = body.get("result") or (body["reason"], body["explanation"])
        return done.returncode, found["status"], shown, [name for name, _ in found.get("headers", ())]

    for words in (("ECHO", "/text", "text=one"), ("ECHO", "/nowhere")):
        assert answered(*words, "--quic") == answered(*words)


def test_a_refused_server_is_reported_once(host: Host, tmp_path: Path) -> None:
    """The error and what to do are all that is printed: the library's own report is not."""
    (tmp_path / "ca.pem").write_bytes(create_authority(now=datetime.now(UTC)).certificate_pem)
    done = host.agtp("call", "-", "ECHO", "/text", "text=x", "--quic", "--cacert", str(tmp_path / "ca.pem"))
    assert done.returncode and done.stderr.startswith("error: ") and len(done.stderr.splitlines()) == 2, done.stderr


def test_carrier_is_shown(host: Host) -> None:
    """A record of QUIC names its carrier, one of TLS none; the host counts both, and names QUIC at its start."""
    assert f"agtphost ready: {host.uri}, quic (" in host.output
    extras = {}
    with sync.Client.of(host.config, quic=True) as quic, sync.Client.of(host.config) as tls:
        for name, client in (("quic", quic), ("tls", tls)):
            record = client.call("ECHO", "/text", {"text": "one"}).headers.get("attribution-record") or ""
            part = record.split(".")[1]
            extras[name] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))["extra"]
        seen, shown = host.agtp_json("status")["quic"], host.agtp("status").stdout
    assert extras["quic"].pop("carrier") == "quic"
    assert extras["quic"] == extras["tls"]
    assert seen["connections"] == 1 and seen["streams"] <= 1  # A request is over when its answer is acknowledged.
    assert "by QUIC" in shown and "1 of the connections" in shown


def test_calls_need_no_tcp(host: Host) -> None:
    """The control: a client that was told so has a QUIC connection and no other, and verifies the record."""
    with sync.Client.of(host.config, quic=True) as client:
        assert client.call("ECHO", "/text", {"text": "one"}).verified
        [link] = [link for _, link in client.client._calls._pool.drain()]
        assert type(link).__name__ == "BlockingQuicConnection"


def test_the_manifest_states_both_carriers(host: Host) -> None:
    """``transports`` has the ports that the host listens at, by number: here QUIC has that of TLS."""
    shown = host.agtp_json("manifest", "show", "-", "--document")
    assert shown["transports"] == [
        {"carrier": "tls", "port": host.port},
        {"carrier": "quic", "port": host.port, "alpn": "agtp"},
    ]
    assert f"tls {host.port}, quic {host.port}" in host.agtp("manifest", "show", "-").stdout


def auto_call(host: Host, cache: Path, uri: str = "-") -> tuple[Any, str]:
    """What ``agtp call --quic=auto`` of a user with a cache of its own prints: its JSON, and its standard error."""
    words = ("call", "--quic=auto", uri, "ECHO", "/text", "text=one", "--json", "--config", str(host.config))
    done = agtp(*words, cwd=host.config.parent, environ={"XDG_CACHE_HOME": str(cache)})
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout), done.stderr


def test_the_command_learns_of_quic_and_remembers_it(host: Host, tmp_path: Path) -> None:
    """``--quic=auto`` of a fresh profile reads the manifest once; a later command needs neither that nor TCP."""
    found = []
    for _ in range(2):
        shown, notes = auto_call(host, tmp_path)
        assert (shown["body"]["result"]["text"], notes) == ("one", "")
        [kept] = (tmp_path / "agtphost" / "carriers").iterdir()
        found.append(kept.read_text())
    assert json.loads(found[0])["quic"] == host.port
    assert found[0] == found[1]  # Another reading would have another time.
    assert auto_call(host, tmp_path, remembered_host(host, tmp_path))[0]["status"] == 200


def test_the_command_says_once_that_it_fell_back(host: Host, tmp_path: Path) -> None:
    """Where QUIC does not answer the call is made over TLS; the note is on stderr once, and in ``--json``."""
    with socket.socket(type=socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        memory = CarrierFiles({"XDG_CACHE_HOME": str(tmp_path)})
        memory.write(Destination("127.0.0.1", host.port), silent.getsockname()[1], 100.0, 0.0)
        (first, noted), (second, silence) = auto_call(host, tmp_path), auto_call(host, tmp_path)
    assert (first["status"], second["status"], silence) == (200, 200, "")
    assert noted == (
        f"note: {OVERTAKEN} 127.0.0.1:{host.port} is called over TLS; QUIC is tried again after 5 minutes.\n"
    )
    assert first["fallback"] == {"carrier": "tls", "cause": OVERTAKEN}
    assert "fallback" not in second


def test_the_bridge_speaks_quic(host: Host, tmp_path: Path) -> None:
    """``agtp mcp-bridge --quic=auto`` reaches a host that no TCP leads to; the printed entry keeps the option."""
    closed = remembered_host(host, tmp_path)
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": ENVELOPE}}
    done = forking.run(
        [BIN / "agtp", "mcp-bridge", "--quic=auto", closed, "--config", str(host.config)],
        input=json.dumps(asked) + "\n",
        timeout=60,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        cwd=host.config.parent,
    )
    assert {tool["name"] for tool in json.loads(done.stdout)["result"]["tools"]} >= {"echo_text"}, done.stderr
    for option in ("--quic", "--quic=auto"):
        shown = host.agtp_json("mcp-bridge", option, "--print-config", "claude")["config"]["mcpServers"]
        assert option in next(iter(shown.values()))["args"]


def remembered_host(host: Host, cache: Path) -> str:
    """A URI at which TCP is closed, and of which a cache says that the host is there by QUIC."""
    with socket.create_server(("127.0.0.1", 0)) as was:
        closed = was.getsockname()[1]
    CarrierFiles({"XDG_CACHE_HOME": str(cache)}).write(Destination("127.0.0.1", closed), host.port, 100.0, 0.0)
    return f"agtp://127.0.0.1:{closed}"


def request(agent_id: str, number: int) -> bytes:
    """A request of an agent."""
    lines = ("AGTP/1.0 DESCRIBE /", f"Agent-ID: {agent_id}", f"Task-ID: task-quic-{number}", "Content-Length: 0")
    return "\r\n".join((*lines, "", "")).encode()


def test_agent_is_answered_over_quic_until_it_is_revoked(host: Host) -> None:
    """A call over QUIC is sealed as one over TLS is; once the agent is revoked, open connections are refused."""
    folder = host.state / "agents" / "demo"
    identity = host.agtp_json("agent", "show", "demo")
    agent_id = identity.get("agent_id") or identity["agent"]["agent_id"]
    with (
        BlockingQuic(
            host.state / "ca.pem", host.port, certificate=folder / "agent.pem", key=folder / "agent.key"
        ) as other,
        sync.Client.of(host.config, quic=True) as client,
    ):
        answer = other.call(request(agent_id, 1))
        assert answer.startswith(b"AGTP/1.0 200"), answer[:500]
        assert b"Audit-ID:" in answer or b"audit-id:" in answer.lower()
        assert client.call("DESCRIBE").status == 200
        done = host.agtp("agent", "revoke", "demo", "--reason", "test")
        assert done.returncode == 0, done.stdout + done.stderr
        assert other.call(request(agent_id, 2)).startswith(b"AGTP/1.0 410")
        [open_link] = [each.connection for found in client.client._calls._pool._entries.values() for each in found]
        assert client.call("DESCRIBE").status == 410
        assert open_link.reusable  # the same connection has answered


@pytest.mark.release
def test_host_without_quic_does_not_load_the_library() -> None:
    """What a host is made of does not import aioquic; only a listener that is enabled does."""
    code = "import sys, agtphost.tap, agtphost.host.assembly; sys.exit('aioquic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
