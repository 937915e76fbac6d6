"""A takeover whose start fails although its trial found nothing: what is served then, and by which host."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from agtphost.identity.keys import SigningKey
from agtphost.stores.lease import LONGEST_LEASE
from tests import postgres
from tests.cluster.hosts import Cluster, cluster, gone
from tests.cluster.test_issued_agents import JWKS
from tests.cluster.test_untaken_files import paths_of, rename, shown
from tests.host.test_trial_start import CARD_KEY
from tests.system.hosting import free_port, until

pytestmark = postgres.needed

SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'agtphost/b'"


WITNESSED = """
[[witness.logs]]
origin = "elsewhere"
key = "file:other.pub"
"""
ISSUER = """
[[policies.oauth.issuer]]
expected_issuer = "https://id.test"
expected_audience = ["here"]
jwks = "jwks.json"
"""


def port_line(config: Path) -> str:
    """Return the line that has the port of a host."""
    return next(line for line in config.read_text().splitlines() if line.startswith("port = "))


def happen(*events: list[list[str]]) -> dict[str, str]:
    """Return what has events happen, each group after one trial."""
    return {"TEST_EVENTS": json.dumps(events)}


def count_sessions(group: Cluster) -> int:
    """Return how many connections to the database the second host has."""
    return int(postgres.server().run(SESSIONS, url=group.url)[0][0])


def test_starts_that_fail_after_each_trial_leave_what_was_read_before(tmp_path: Path) -> None:
    """The changed port is taken after the first trial, the one before after the second, until that start is undone."""
    with cluster(tmp_path, "a", "b", takeover_after=LONGEST_LEASE) as group:
        config, taken = group.variant("b"), free_port()
        sound, port = config.read_text(), port_line(config)
        events = happen([["listen", str(taken)]], [["listen", port.split()[-1]]])
        host = group.stand_by("b", config=config, fault="counted", environ=events)
        config.write_text(sound.replace(port, f"port = {taken}"))
        rename(group, "/text", "/repeat")
        assert group.hosts["a"].stop() == 0
        assert paths_of(host.wait()) == ["/text"]
        assert "this host serves what it read before" in host.output
        until(lambda: set(shown(group, "b", config)[1]) == {"configuration", "endpoints"})
        (note,), _ = shown(group, "b", config)
        assert str(taken) in note and "`agtp reload`" in note
        after_failure = count_sessions(group)
        assert host.stop() == 0
        config.write_text(sound)
        assert paths_of(group.start("b", config=config).wait()) == ["/repeat"]
        until(lambda: shown(group, "b", config) == ([], []))
        assert count_sessions(group) == after_failure


@pytest.mark.parametrize("after_trial", [True, False])
def test_keys_that_go_before_a_takeover_are_those_that_were_read(tmp_path: Path, after_trial: bool) -> None:
    """A provider's, a card's and a witnessed log's, which the assembly reads: after the trial, or on standby."""
    with cluster(tmp_path, "a", "b", takeover_after=LONGEST_LEASE) as group:
        config, files = group.variant("b"), [group.folder / name for name in ("jwks.json", "missing.pub", "other.pub")]
        files[0].write_text(JWKS)
        for file in files[1:]:
            SigningKey.generate().public.save(file)
        kept = [file.read_bytes() for file in files]
        config.write_text(config.read_text() + ISSUER + CARD_KEY + WITNESSED)
        events = [["remove", str(file)] for file in files if after_trial]
        host = group.stand_by("b", config=config, fault="hindered", environ=happen(events))
        rename(group, "/text", "/repeat")
        if not after_trial:
            for file in files:
                file.unlink()
        assert group.hosts["a"].stop() == 0
        assert paths_of(host.wait()) == ["/repeat" if after_trial else "/text"]
        notes, _ = shown(group, "b", config)
        assert len(notes) == (not after_trial) and all("jwks" in note for note in notes)
        for file, octets in zip(files, kept, strict=True):
            file.write_bytes(octets)
        host.process.send_signal(signal.SIGHUP)
        until(lambda: "SIGHUP: taken: " in host.output or "SIGHUP: nothing" in host.output)
        assert paths_of(host) == ["/repeat"]
        assert shown(group, "b", config)[0] == []


def test_a_port_that_is_taken_after_the_trial_leaves_the_one_before(tmp_path: Path) -> None:
    """As where the trial finds it: the key waits for a restart, and all else is taken."""
    with cluster(tmp_path, "a", "b", takeover_after=LONGEST_LEASE) as group:
        taken = free_port()
        config = group.variant("b")
        port = port_line(config)
        host = group.stand_by("b", config=config, fault="hindered", environ=happen([["listen", str(taken)]]))
        config.write_text(config.read_text().replace(port, f"port = {taken}"))
        rename(group, "/text", "/repeat")
        assert group.hosts["a"].stop() == 0
        assert host.wait().uri.endswith(f":{port.split()[-1]}")
        assert paths_of(host) == ["/repeat"]
        until(lambda: shown(group, "b", config)[1] == ["configuration"])
        (note,), _ = shown(group, "b", config)
        assert "[listen]" in note and str(taken) in note and "restart this host" in note


def test_files_that_change_after_the_trial_are_read_again(tmp_path: Path) -> None:
    """The changed port is taken, and corrected, before this host listens there: it serves with the corrected one."""
    with cluster(tmp_path, "a", "b", takeover_after=LONGEST_LEASE) as group:
        taken, free = free_port(), free_port()
        config = group.variant("b")
        text, port = config.read_text(), port_line(config)
        events = [["listen", str(taken)], ["write", str(config), text.replace(port, f"port = {free}")]]
        host = group.stand_by("b", config=config, fault="hindered", environ=happen(events))
        config.write_text(text.replace(port, f"port = {taken}"))
        rename(group, "/text", "/repeat")
        assert group.hosts["a"].stop() == 0
        assert host.wait().uri.endswith(f":{free}")
        assert paths_of(host) == ["/repeat"]
        assert shown(group, "b", config) == ([], [])


def test_a_host_that_another_one_outruns_stands_by_when_it_is_started_again(tmp_path: Path) -> None:
    """While its failed start was undone, the other one took the lease: it ends with status 75, and says why."""
    with cluster(tmp_path, "a", "b", "c", takeover_after=LONGEST_LEASE) as group:
        taken = free_port()
        config = group.variant("b")
        port = port_line(config)
        host = group.stand_by("b", config=config, fault="outrun", environ=happen([["listen", str(taken)]]))
        sound = config.read_text()
        config.write_text(sound.replace(port, f"port = {taken}"))
        assert group.hosts["a"].stop() == 0
        until(lambda: "this host takes over" in host.output)
        third = group.start("c")
        assert gone(host) == 75
        assert paths_of(third.wait()) == ["/text"]
        assert "c took over while" in host.output and str(taken) in host.output
        config.write_text(sound)
        group.stand_by("b", config=config)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
@pytest.mark.parametrize("back", [True, False])
def test_a_database_that_restarts_during_a_takeover_is_waited_for(
    tmp_path: Path, how: signal.Signals, back: bool
) -> None:
    """As by ``pg_ctl restart``, fast and immediate, after the lease was taken: back before the start, or later."""
    server = postgres.server()
    with cluster(tmp_path, "a", "b", takeover_after=LONGEST_LEASE) as group:
        gate = tmp_path / "gate"
        config = group.variant("b")
        host = group.stand_by("b", config=config, fault="hindered", environ=happen([["wait", str(gate)]]))
        rename(group, "/text", "/repeat")
        assert group.hosts["a"].stop() == 0
        until(Path(f"{gate}.waits").exists)
        server.stop(how)
        try:
            if not back:
                gate.touch()
                until(lambda: "is a standby again" in host.output or host.process.poll() is not None)
        finally:
            server.start()
        gate.touch()
        assert paths_of(host.wait()) == ["/repeat"], host.output
        assert shown(group, "b", config) == ([], [])
