"""Surfaces that share a listener, and listeners that are sockets of the file system, at running hosts."""

from __future__ import annotations

import http.client
import json
import re
import shlex
import signal
import socket
import ssl
import subprocess
from pathlib import Path
from typing import Any

from agtphost.identity.provisioning import provision_development
from tests.system.hosting import Host, agtp, free_port, running, sample, until

FRONT = """
[a2a.front]
listen = "{listen}"
agent_id = "{agent_id}"
{more}

[[a2a.front.agent]]
name = "librarian"
method = "ECHO"
path = "/text"
answer = "text"
"""
CARD = "/.well-known/agent-card.json"


def deploy(folder: Path, listen: str, more: str = "", append: str = "") -> Path:
    """The sample host with a front."""
    config = sample(folder)
    state = config.parent / "state"
    provision_development(state, server_id="localhost", hosted=[config.parent / "agents" / "librarian.agent.json"])
    demo = json.loads((state / "agents/demo/document.json").read_text())["agent_id"]
    config.write_text(config.read_text() + FRONT.format(listen=listen, agent_id=demo, more=more) + append)
    return config


def get(host: Host, port: int, path: str, **fields: str) -> tuple[int, bytes]:
    """One document over HTTPS."""
    context = ssl.create_default_context(cafile=str(host.state / "ca.pem"))
    connection = http.client.HTTPSConnection("localhost", port, timeout=25, context=context)
    connection.request("GET", path, headers=fields)
    answer = connection.getresponse()
    read = answer.read()
    connection.close()
    return answer.status, read


def test_sections_share_a_listener(tmp_path: Path) -> None:
    """One port, one certificate, three surfaces, each by its paths alone; a renewed certificate is shown for all."""
    port = free_port()
    listen = f"ssl:{port}:interface=127.0.0.1"
    token = tmp_path / "f.token"
    token.touch(0o600)
    token.write_text("f" * 32)
    beside = f'\n[wellknown]\nlisten = "{listen}"\n\n[metrics]\nlisten = "ssl:port={port}:interface=127.0.0.1"\n'
    config = deploy(tmp_path, listen, f'tokens = ["file:{token}"]', beside)
    with running(config) as host:
        until(lambda: host.output.count(f"is served on port {port}") == 3)
        assert json.loads(get(host, port, "/.well-known/agtp")[1])["agtp_version"]
        assert json.loads(get(host, port, CARD)[1])["name"] == "librarian"
        assert b"agtphost_" in get(host, port, "/metrics")[1]
        assert get(host, port, "/nowhere")[0] == 404
        assert get(host, port, "/metrics", Host="evil.example")[0] == 421

        def shown() -> str:
            return ssl.get_server_certificate(("127.0.0.1", port))

        before = shown()
        renewed = config.parent / "renewed.pem"
        words = ("cert", "issue", "server", "localhost", "--ca", "state/ca.pem", "-o", str(renewed))
        assert host.agtp(*words).returncode == 0
        (host.state / "server.pem").write_bytes(renewed.read_bytes())
        (host.state / "server.key").write_bytes(renewed.with_suffix(".key").read_bytes())
        host.process.send_signal(signal.SIGHUP)
        until(lambda: shown() != before)
        assert get(host, port, "/.well-known/agtp")[0] == get(host, port, CARD)[0] == 200


def test_surfaces_that_overlap_keep_the_host_from_starting(tmp_path: Path) -> None:
    """The message names both lines, and what to do."""
    listen = "tcp:8099:interface=127.0.0.1"
    config = deploy(tmp_path, listen, append=f'\n[metrics]\nlisten = "{listen}"\n\n[admin]\nlisten = "{listen}"\n')
    lines = config.read_text().splitlines()
    first, second = lines.index("[a2a.front]") + 1, lines.index("[admin]") + 2
    done = agtp("check", str(config))
    assert done.returncode != 0
    told = done.stdout + done.stderr
    assert f"host.toml:{second}: [admin] listen is where [a2a.front] has /agents" in told
    assert f"overlaps / here (line {first})" in told


class Local(http.client.HTTPConnection):
    """HTTP by a socket of the file system."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=25)
        self._path = str(path)

    def connect(self) -> None:
        """To the path."""
        self.sock: Any = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(25)
        self.sock.connect(self._path)


def test_a_socket_of_the_file_system_is_a_listener(tmp_path: Path) -> None:
    """For a proxy on the same machine: by ``localhost``, or by what ``hosts`` lists."""
    path = tmp_path / "http.sock"
    with running(deploy(tmp_path, f"unix:{path}:mode=600", 'hosts = ["agents.example", "localhost"]')) as host:
        until(lambda: "the A2A front is served" in host.output)
        assert path.stat().st_mode & 0o777 == 0o600
        for name, status in (("localhost", 200), ("agents.example", 200), ("evil.example", 421)):
            connection = Local(path)
            connection.request("GET", CARD, headers={"Host": name})
            assert connection.getresponse().status == status
            connection.close()


PAGE = Path(__file__).resolve().parents[2] / "docs" / "http.rst"


def test_the_pages_command_shows_what_a_host_says(tmp_path: Path) -> None:
    """docs/http.rst: who asks by another name is told so."""
    port = free_port()
    (line, shown) = re.search(r"    (curl .*)\n    (HTTP.*)\n", PAGE.read_text()).groups()  # type: ignore[union-attr]
    with running(deploy(tmp_path, f"tcp:{port}:interface=127.0.0.1")) as host:
        until(lambda: "the A2A front is served" in host.output)
        words = shlex.split(line.replace(":8080", f":{port}"))
        said = subprocess.run(words, capture_output=True, text=True, timeout=30, check=True).stdout
        assert said.splitlines()[0] == shown
        known = subprocess.run(
            [word for word in words if word not in ("-H", "Host: rebound.example")],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        assert known.stdout.startswith("HTTP/1.1 200 ")
