"""Below the requests: TCP and TLS."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import struct
import subprocess
import tempfile
import time
from itertools import islice
from pathlib import Path

from tests.attacks.attack import MIB, Attack, Target
from tests.attacks.strikes import addresses, agent_of, fewer, hello, opened, plain, said, turns
from tests.protocols.authorities import agtp_extensions, issue
from tests.system.raw_link import client_context, request

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: closing resets."""


def noise(target: Target, seconds: float) -> None:
    """What is no TLS at all: closed without a word of AGTP."""
    for _, source in zip(turns(seconds), addresses(), strict=False):
        with contextlib.suppress(OSError), plain(target, source) as link:
            link.sendall(b"AGTP/1.0 DISCOVER /\r\n\r\n" * 10 + bytes(range(256)) * 20)
            assert b"AGTP" not in link.recv(4096), "the host speaks without TLS"


def half_handshakes(target: Target, seconds: float) -> None:
    """400 peers from 40 addresses greet, and say nothing more."""
    first = hello(client_context(target, identified=False))
    links = []
    for _, source in zip(turns(seconds, most=400), addresses(), strict=False):
        with contextlib.suppress(OSError):
            link = plain(target, source)
            links.append(link)
            link.sendall(first)
    time.sleep(max(0.0, min(1.0, seconds / 4)))
    for link in links:
        link.close()


def handshakes(target: Target, seconds: float) -> None:
    """As many whole handshakes as 40 addresses are admitted with."""
    context = client_context(target, identified=False)
    for _, source in zip(turns(seconds), addresses(), strict=False):
        link = opened(target, context, source)
        if link is not None:
            link.close()


def certified_handshakes(target: Target, seconds: float) -> None:
    """An agent that opens a connection for each request."""
    context = client_context(target)
    for _ in turns(seconds):
        link = opened(target, context, "127.0.3.1")
        if link is None:
            continue
        with link:
            link.send(request("DISCOVER", "/methods"))
            answer = said(link)
            assert answer is None or answer.status in (200, 429), answer


def resets(target: Target, seconds: float) -> None:
    """Connections that are reset as soon as they are there, or in the middle of the handshake."""
    first = hello(client_context(target, identified=False))
    for number, source in zip(turns(seconds), addresses(), strict=False):
        with contextlib.suppress(OSError):
            link = plain(target, source)
            if number % 2:
                link.sendall(first[: 20 + number % 200])
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            link.close()


def old_versions(target: Target, seconds: float) -> None:
    """TLS 1.2 is refused."""
    context = client_context(target, identified=False)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    for _, source in zip(turns(seconds), addresses(), strict=False):
        link = opened(target, context, source)
        assert link is None, "the host speaks TLS 1.2"


def strange_certificates(target: Target, seconds: float) -> None:
    """Certificates of authorities that nobody named: no request of theirs is ever answered with 200."""
    with tempfile.TemporaryDirectory() as folder:
        context = client_context(target, identified=False)
        agent_id = agent_of(target, "honest").encode()
        forged = issue(issue(name="nobody", authority=True), extensions=agtp_extensions(agent_id))
        certificate, key = forged.save(Path(folder), "agent")
        context.load_cert_chain(certificate, key)
        for _, source in zip(turns(seconds), addresses(), strict=False):
            link = opened(target, context, source)
            if link is None:
                continue
            with link:
                try:
                    link.send(request("ECHO", "/text", {"text": "who am I"}))
                except OSError:
                    continue
                answer = said(link)
                assert answer is None or answer.status != 200, "a certificate of nobody was believed"


def cut_records(target: Target, seconds: float) -> None:
    """After a good handshake, records that decrypt to nothing: closed."""
    context = client_context(target, identified=False)
    for _, source in zip(turns(seconds), addresses(), strict=False):
        link = opened(target, context, source)
        if link is None:
            continue
        raw = socket.socket(fileno=link.tls.detach())
        raw.settimeout(20)
        with contextlib.suppress(OSError), raw:
            raw.sendall(b"\x17\x03\x03\x00\x40" + b"\x5a" * 64)
            octets = raw.recv(4096)
            while octets:
                octets = raw.recv(4096)


def key_updates(target: Target, seconds: float) -> None:
    """An agent that asks for new keys thousands of times, on one connection after the other."""
    command = shutil.which("openssl")
    assert command is not None, "the program openssl is needed: it alone can ask for key updates"
    own = target.state / "agents" / "demo"
    words = ["s_client", "-connect", f"127.0.0.1:{target.port}", "-bind", "127.0.3.1", "-tls1_3"]
    words += ["-cert", str(own / "agent.pem"), "-key", str(own / "agent.key")]
    end, arrived = time.monotonic() + seconds, 0
    while time.monotonic() < end or not arrived:
        client = subprocess.Popen(
            [command, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert client.stdin is not None and client.stdout is not None
        try:
            # Said once the handshake is done; before, no key can be asked for.
            arrived += any(b"SSL handshake has read" in line for line in iter(client.stdout.readline, b""))
            # One letter at the beginning of what it reads at once is a command: K asks for new keys of both sides.
            for _ in turns(max(0.0, end - time.monotonic()), most=5_000):
                client.stdin.write(b"K\n")
                client.stdin.flush()
                time.sleep(0.0005)
        except OSError:
            pass
        finally:
            client.kill()
            client.communicate()
    target.arrived(arrived)


def long_names(target: Target, seconds: float) -> None:
    """SNI of names that nobody has, each another one: nothing is kept of them."""
    context = client_context(target, identified=False)
    context.check_hostname = False
    for number, source in zip(turns(seconds), addresses(), strict=False):
        with contextlib.suppress(OSError):
            raw = plain(target, source)
            name = f"{number:060d}." + ".".join(["x" * 60] * 2) + ".example"
            context.wrap_socket(raw, server_hostname=name).close()


def idle_crowd(target: Target, seconds: float) -> None:
    """400 certified connections that do nothing: at most 48 KiB each."""
    context = client_context(target)
    links = [opened(target, context, source) for source in islice(addresses(), fewer(400, seconds))]
    time.sleep(max(0.0, min(1.0, seconds / 4)))
    for link in links:
        if link is not None:
            link.close()


def _attack(name: str, who: str, says: str, run: object, **more: object) -> Attack:
    return Attack(name=name, who=who, says=says, run=run, **more)  # type: ignore[arg-type]


ATTACKS = (
    _attack("no-tls", "stranger", "Octets that are no TLS: closed.", noise),
    _attack("half-handshakes", "stranger", "400 peers greet and fall silent.", half_handshakes, memory=40 * MIB),
    _attack("handshake-flood", "stranger", "Handshakes of 40 addresses, as fast as they go.", handshakes),
    _attack("certified-reconnects", "agent", "A connection for each request.", certified_handshakes),
    _attack(
        "connection-resets",
        "stranger",
        "Reset at once, or within the handshake.",
        resets,
        connections=True,
        memory=40 * MIB,
    ),
    _attack("old-tls", "stranger", "TLS 1.2: refused.", old_versions),
    _attack(
        "strange-certificates",
        "stranger",
        "Certificates of nobody's authority.",
        strange_certificates,
    ),
    _attack("broken-records", "stranger", "TLS records that nobody can decrypt: closed.", cut_records),
    _attack("key-updates", "agent", "Thousands of TLS key updates.", key_updates),
    _attack("server-names", "stranger", "SNI names that nobody has, each another one.", long_names),
    _attack("idle-crowd", "agent", "400 certified connections, 48 KiB each.", idle_crowd, memory=35 * MIB),
)
