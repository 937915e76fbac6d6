"""HAProxy with the configuration of ``etc/haproxy.cfg``, in front of two real hosts."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import postgres
from tests.cluster.hosts import Cluster, answers_after, check, cluster, gone, load
from tests.system.hosting import ETC, Host, free_port, until
from tests.system.raw_link import Answer, RawLink, request
from tests.system.trail import marks

CONFIGURATION = ETC / "haproxy.cfg"
HAPROXY = shutil.which("haproxy")

needed = pytest.mark.skipif(HAPROXY is None, reason="haproxy is not here: apt-get install haproxy")

RESOLVED = " init-addr none resolvers names"
"""What etc/haproxy.cfg has for names, where the test has addresses."""

LONGER_THAN_CHECKS = 3
"""Seconds that a call takes, longer than HAProxy needs to notice that a host is not ready."""


def checked(file: Path) -> subprocess.CompletedProcess[str]:
    """Have HAProxy check a configuration."""
    return subprocess.run([str(HAPROXY), "-c", "-f", str(file)], capture_output=True, text=True, timeout=60)


@needed
def test_the_configuration_is_sound(tmp_path: Path) -> None:
    """HAProxy has neither an error nor a warning; a word that it does not know is found: the control."""
    done = checked(CONFIGURATION)
    assert done.returncode == 0, done.stderr
    assert "warning" not in (done.stdout + done.stderr).lower()
    planted = tmp_path / "haproxy.cfg"
    planted.write_text(CONFIGURATION.read_text().replace("rise 1", "rsie 1"))
    assert checked(planted).returncode != 0


@dataclass(frozen=True)
class Balanced:
    """The hosts, as callers reach them."""

    port: int
    state: Path


def start_probed(group: Cluster, name: str) -> tuple[Host, str]:
    """Start a host with ports of its own; return it, and what a line ``server`` says of the ports."""
    probes = free_port()
    config = group.variant(name)
    section = f'\n[metrics]\nlisten = "tcp:{probes}"\nbehind_proxy = true\nhosts = ["agtphost"]\n'
    config.write_text(config.read_text() + section)
    port = tomllib.loads(config.read_text())["listen"]["port"]
    return group.start(name, config=config), f"127.0.0.1:{port} port {probes}"


@contextmanager
def balancing(folder: Path, servers: Mapping[str, str], *edits: tuple[str, str]) -> Iterator[int]:
    """
    Run HAProxy with etc/haproxy.cfg; return its port.

    :param servers: addresses and ports by names of that file.
    :param edits: further changes of it.
    """
    port = free_port()
    text = CONFIGURATION.read_text()
    for old, new in (
        ("bind :4480", f"bind 127.0.0.1:{port}"),
        (RESOLVED, ""),
        *((f"server {name} {name}:4480", f"server {name} {place}") for name, place in servers.items()),
        *edits,
    ):
        assert old in text, old
        text = text.replace(old, new)
    file = folder / "haproxy.cfg"
    file.write_text(text)
    assert HAPROXY is not None
    with (folder / "haproxy.log").open("wb") as log:
        process = subprocess.Popen([HAPROXY, "-db", "-f", str(file)], stdout=log, stderr=log)
    try:
        yield port
    finally:
        process.terminate()
        process.wait(30)


def answer_after_sigterm(reached: Balanced, host: Host) -> Answer | None:
    """Stop a host while a call runs, and return the call's answer; None if its connection was cut."""
    with RawLink(reached) as link:
        running = {"mark": "running", "seconds": LONGER_THAN_CHECKS}
        link.send(request("BOOK", "/stay", running, Idempotency_Key="running"))
        until(lambda: "running" in marks(host.config))
        host.process.send_signal(signal.SIGTERM)
        return link.answer()


@needed
@postgres.needed
def test_a_balancer_that_cuts_connections_is_noticed(tmp_path: Path) -> None:
    """The control: where it ends those to a host that is not ready, the call that runs gets no answer."""
    with cluster(tmp_path, "east") as group:
        assert group.hosts["east"].stop() == 0
        east, at_east = start_probed(group, "east")
        east.wait()
        cutting = ("fall 2 rise 1", "fall 2 rise 1 on-marked-down shutdown-sessions")
        with balancing(tmp_path, {"east": at_east, "west": at_east}, cutting) as port:
            reached = Balanced(port, group.state("east"))
            with load(reached, 1) as journal:
                answers_after(journal, 0)
            assert answer_after_sigterm(reached, east) is None


@needed
@postgres.needed
def test_calls_go_to_the_host_that_serves(tmp_path: Path) -> None:
    """Through one port: by the first host, and after its SIGTERM by the other; no call is lost, nor one that runs."""
    with cluster(tmp_path, "east", "west") as group:
        assert group.hosts["east"].stop() == 0
        east, at_east = start_probed(group, "east")
        east.wait()
        west, at_west = start_probed(group, "west")
        until(lambda: "agtphost standby" in west.output)
        with balancing(tmp_path, {"east": at_east, "west": at_west}) as port:
            reached = Balanced(port, group.state("east"))
            with load(reached) as journal:
                answers_after(journal, 0)
                answer = answer_after_sigterm(reached, east)
                assert answer is not None and answer.status == 200
                assert gone(east) == 0
                ended = max(journal.times)
                west.wait()
                answers_after(journal, ended)
            check(group, journal)
            assert not journal.others, journal.others
        assert group.term() == 3
