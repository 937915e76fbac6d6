"""A running host whose system clock is set by days, seen from outside: calls, timers, log, and `agtp audit verify`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks.quic_caller import QuicCaller
from tests.conformance.conftest import QUIC
from tests.system.clocks import SetClock, notified, shifted
from tests.system.hosting import Host, running, sample, until
from tests.system.raw_link import request

DAY = 86_400.0


def found(host: Host, words: str) -> int:
    return sum(words in line for line in host.lines)


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [5 * DAY, pytest.param(-5 * DAY, marks=pytest.mark.release)])
def test_a_clock_that_goes_and_comes_back_changes_nothing(tmp_path: Path, ahead: float) -> None:
    """Keyed calls run once, timers go on in both directions, and the jump is in the log and in the evidence."""
    config, clock = sample(tmp_path), SetClock(tmp_path / "clock")
    with shifted(config, clock) as host:
        before = notified(host, "k-1")
        clock.set(ahead)
        assert notified(host, "k-1") == before
        # Told by a timer: where those stood still with the clock, nothing would be.
        until(lambda: found(host, "the system's clock jumped by") == 1)
        assert notified(host, "k-1") == before
        clock.set(0.0)
        until(lambda: found(host, "the system's clock is back") == 1)
        assert notified(host, "k-1") == before
        verified = host.agtp("audit", "verify")
        assert verified.returncode == 0, verified.stdout + verified.stderr
        assert "clock: clock-jumped at " in verified.stdout and "clock: clock-returned at " in verified.stdout
        events = host.agtp_json("audit", "verify")["clock"]
        assert [each["event"] for each in events] == ["clock-jumped", "clock-returned"]
        assert abs(events[0]["seconds"] - ahead) < 60


@pytest.mark.release
@pytest.mark.slow
def test_a_host_that_is_started_again_within_the_jump_remembers(tmp_path: Path) -> None:
    """The start says how old the newest record is, has it on record, and answers a repeat from what is stored."""
    config, clock = sample(tmp_path), SetClock(tmp_path / "clock")
    with running(config) as host:
        before = notified(host, "k-1")
    clock.set(5 * DAY)
    with shifted(config, clock) as host:
        assert notified(host, "k-1") == before
        assert found(host, "the host was off or idle, or the system's clock is ahead") == 1
    with running(config) as host:
        # Five days behind what is signed.
        assert found(host, "from the newest record") == 1
        assert notified(host, "k-1") == before
        assert host.agtp("audit", "verify").returncode == 0


@pytest.mark.slow
def test_a_clock_that_is_set_back_delays_nothing_over_quic(tmp_path: Path) -> None:
    """An answer that is not acknowledged is sent again, though its timer was set before the clock."""
    clock = SetClock(tmp_path / "clock")
    with shifted(sample(tmp_path, append=QUIC), clock) as host:
        client = QuicCaller(host, "127.0.0.1")
        assert client.connect()
        client.begin(request("ECHO", "/text", {"text": "x"}))
        client.socket.settimeout(60)
        client.socket.recv(1_500)
        clock.set(-5 * DAY)
        for _ in range(5):  # The answer itself has two.
            client.socket.recv(1_500)
        client.close()
