"""HAProxy with the configuration of ``etc/haproxy.cfg``, in front of two real hosts."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import postgres
from tests.cluster.client_calls import calling
from tests.cluster.hosts import TAKEOVER_AFTER, Cluster, answers_after, check, cluster, gone, load
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


@contextmanager
def balanced(folder: Path, *edits: tuple[str, str]) -> Iterator[tuple[Cluster, Balanced]]:
    """
    Run a host that serves and one that stands by, each with ports of its own, behind HAProxy.

    :param edits: changes of etc/haproxy.cfg.
    """
    with cluster(folder, "east", "west") as group:
        assert group.hosts["east"].stop() == 0
        east, at_east = start_probed(group, "east")
        east.wait()
        west, at_west = start_probed(group, "west")
        until(lambda: "agtphost standby" in west.output)
        with balancing(folder, {"east": at_east, "west": at_west}, *edits) as port:
            reached = Balanced(port, group.state("east"))
            until(lambda: is_reachable(reached))
            yield group, reached


def is_reachable(reached: Balanced) -> bool:
    """Return whether a connection through HAProxy gets to a host."""
    with suppress(OSError), RawLink(reached):
        return True
    return False


@pytest.mark.release
@needed
@postgres.needed
def test_a_balancer_that_takes_a_stopping_host_for_dead_is_noticed(tmp_path: Path) -> None:
    """The control: with 503 instead of 404 it ends the connections, and the call that runs gets no answer."""
    with balanced(tmp_path, ("/readyz?unready=404", "/readyz")) as (group, reached):
        with load(reached, 1) as journal:
            answers_after(journal, 0)
        assert answer_after_sigterm(reached, group.hosts["east"]) is None


@needed
@postgres.needed
def test_calls_go_to_the_host_that_serves(tmp_path: Path) -> None:
    """Through one port: by the first host, and after its SIGTERM by the other; no call is lost, nor one that runs."""
    with balanced(tmp_path) as (group, reached):
        east, west = (group.hosts[name] for name in group.names)
        with load(reached) as journal, calling(reached.state, reached.port, 20.0) as results:
            answers_after(journal, 0)
            answer = answer_after_sigterm(reached, east)
            assert answer is not None and answer.status == 200
            assert gone(east) == 0
            ended, before = max(journal.times), results.good
            west.wait()
            answers_after(journal, ended)
            until(lambda: results.good > before)
        check(group, journal)
        assert not journal.others, journal.others
        assert not results.failed, results.failed
        assert group.term() == 3


def frozen_call_ends(folder: Path, *edits: tuple[str, str]) -> bool:
    """Freeze the host that serves, with a call in its socket; return whether its caller notices before it wakes."""
    with balanced(folder, *edits) as (group, reached):
        east, west = (group.hosts[name] for name in group.names)
        with RawLink(reached, timeout=2 * TAKEOVER_AFTER) as link:
            assert link.ask("ECHO", "/text", {"text": "x"}).status == 200
            east.process.send_signal(signal.SIGSTOP)
            try:
                link.send(request("BOOK", "/stay", {"mark": "frozen"}, Idempotency_Key="frozen"))
                west.wait()
                with suppress(TimeoutError):
                    return link.answer() is None
                return False
            finally:
                east.process.send_signal(signal.SIGCONT)


@needed
@postgres.needed
def test_a_call_at_a_frozen_host_ends(tmp_path: Path) -> None:
    """HAProxy ends the connection once the host answers no check, so that its caller can go to the other one."""
    assert frozen_call_ends(tmp_path)


@pytest.mark.release
@needed
@postgres.needed
def test_control_a_call_at_a_frozen_host_waits(tmp_path: Path) -> None:
    """Without that setting, its caller waits for a host that will not answer."""
    assert not frozen_call_ends(tmp_path, (" on-marked-down shutdown-sessions", ""))
