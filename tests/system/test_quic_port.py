"""A host whose UDP port is another than that of TLS: what names it, and who finds it."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from agtphost.client import sync
from tests import forking
from tests.bridge.test_stdio import ENVELOPE
from tests.system.hosting import BIN, Host, agtp, free_port, running, sample


@pytest.fixture(scope="module")
def port() -> int:
    """A port that no other listener has."""
    return free_port()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[Host]:
    section = f"\n[quic]\nenabled = true\nport = {port}\n"
    with running(sample(tmp_path_factory.mktemp("quic"), append=section)) as host:
        yield host
        assert host.stop() == 0


def test_a_port_of_its_own_is_named_and_found(host: Host, port: int, tmp_path: Path) -> None:
    """The ready line, the manifest and the status of a running host; ``--quic=auto`` needs nothing else."""
    assert port != host.port
    assert f"agtphost ready: agtp://127.0.0.1:{host.port}, quic at UDP port {port} (server " in host.output
    assert host.agtp_json("manifest", "show", "-", "--document")["transports"] == [
        {"carrier": "tls", "port": host.port},
        {"carrier": "quic", "port": port, "alpn": "agtp"},
    ]
    words = ("call", "--quic=auto", "-", "ECHO", "/text", "text=one", "--json", "--config", str(host.config))
    found = agtp(*words, cwd=host.config.parent, environ={"XDG_CACHE_HOME": str(tmp_path)})
    assert found.returncode == 0 and '"fallback"' not in found.stdout, found.stdout + found.stderr
    with sync.Client.of(host.config, quic="auto") as client:
        assert client.call("ECHO", "/text", {"text": "one"}).verified
        seen, shown = host.agtp_json("status"), host.agtp("status")
    assert seen["ready"] and seen["uri"] == host.uri and seen["quic"]["connections"] == 1
    assert seen["quic"]["port"] == port
    assert shown.returncode == 0 and "1 of the connections" in shown.stdout
    assert f"at UDP port {port}\n" in shown.stdout


def test_the_port_of_quic_comes_with_the_address_from_the_file(host: Host, port: int) -> None:
    """Where no URI is written, ``--quic`` needs no port either: commands, the conformance runner and clients."""
    words = ("ECHO", "/text", "text=one", "--quic")
    for called in (agtp("call", "-", *words, cwd=host.config.parent), host.agtp("call", "-", *words)):
        assert called.returncode == 0, called.stderr
    written = f"agtp://127.0.0.1:{port}"  # The file that lies here is the host's by this port too.
    assert agtp("call", written, *words, cwd=host.config.parent).returncode == 0
    tried = host.agtp("conformance", "--quic", "--only", "quic.*")
    assert tried.returncode == 0, tried.stdout + tried.stderr
    with sync.Client.of(host.config, quic=True) as client:
        assert client.uri == written
        assert client.call("ECHO", "/text", {"text": "one"}).verified


def test_a_port_of_its_own_is_part_of_the_uri(host: Host, port: int) -> None:
    """``--quic`` takes the port that it is given; at that of TLS nothing answers by UDP, which the error explains."""
    words = ("ECHO", "/text", "text=one", "--quic", "--config", str(host.config))
    called = agtp("call", f"agtp://127.0.0.1:{port}", *words, cwd=host.config.parent)
    assert called.returncode == 0, called.stderr
    refused = agtp("call", f"agtp://127.0.0.1:{host.port}", *words, cwd=host.config.parent)
    assert refused.returncode == 3 and "its port in the URI if [quic] port is not TLS's" in refused.stderr


def test_a_host_that_is_silent_by_udp_is_found_by_tcp(host: Host, port: int, tmp_path: Path) -> None:
    """With ``[quic] port`` in the file, the error of ``--quic`` says whether the host answers at TLS's port."""
    config = host.config.with_name("silent.toml")
    config.write_text(host.config.read_text().replace(f"port = {port}", f"port = {free_port()}"))
    down = host.config.with_name("down.toml")
    down.write_text(config.read_text().replace(f"port = {host.port}", f"port = {free_port()}"))
    words = ("call", "-", "ECHO", "/text", "text=one", "--quic", "--config")
    answers = f"without --quic it answers, by TCP at port {host.port}."
    for file, said in ((config, answers), (down, "nor by TCP at port")):
        refused = agtp(*words, str(file), cwd=tmp_path)
        assert refused.returncode == 3 and said in refused.stderr, refused.stderr
    [silent] = re.findall(r"\[quic\]\nenabled = true\nport = (\d+)", config.read_text())
    written = agtp("call", f"agtp://127.0.0.1:{silent}", *words[2:], str(config), cwd=tmp_path)
    assert written.returncode == 3 and answers in written.stderr, written.stderr


def test_the_bridge_takes_the_port_from_the_file(host: Host) -> None:
    """An MCP client reaches the host's tools over QUIC, and names no port."""
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": ENVELOPE}}
    words = [BIN / "agtp", "mcp-bridge", "--quic", "--config", str(host.config)]
    done = forking.run(words, input=json.dumps(asked) + "\n", timeout=60, cwd=host.config.parent)
    assert {tool["name"] for tool in json.loads(done.stdout)["result"]["tools"]} >= {"echo_text"}, done.stderr


def test_the_port_is_of_udp_alone(host: Host, port: int) -> None:
    """Nothing listens at QUIC's port by TCP."""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 10)
