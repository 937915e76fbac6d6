"""
A host that starts on a disk that is full, or nearly: it says so, is not ready, and still stops agents.

The store lies on a file system in memory of 64 MiB where this machine lets one be mounted.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from tests.system.hosting import Host, running, until
from tests.system.raw_link import RawLink
from tests.system.test_disk import assert_refused, book, fill, with_store
from tests.system.test_disk import small_disk as small_disk
from tests.system.trail import marks, stored, verified

FLOOR, RESERVE = 24 << 20, 16 << 20


def placed(tmp_path: Path, disk: Path, reserve: int = RESERVE) -> Path:
    """The traced deployment with its store on the small disk, and space kept there."""
    config = with_store(tmp_path, disk / "records.sqlite3", FLOOR)
    config.write_text(config.read_text() + f"free_space_reserve = {reserve}\n")
    return config


def assert_stops_agents(host: Host, link: RawLink) -> None:
    """It is not ready and says why; an ordinary call runs nothing; REVOKE is done, and on record."""
    assert any("serves, and is not ready" in line and "disk" in line for line in host.lines), host.output
    assert not any("agtphost ready:" in line for line in host.lines)
    assert_refused(host, book(link, "ordinary"))
    for _ in range(5):
        for method in ("DEACTIVATE", "REINSTATE"):
            answered = host.agtp("agent", method.lower(), "demo", "--reason", "x" * 100)
            assert answered.returncode == 0, answered.stdout + answered.stderr + host.output
    revoked = host.agtp("agent", "revoke", "demo", "--reason", "compromise-detected")
    assert revoked.returncode == 0, revoked.stdout + revoked.stderr + host.output


@pytest.mark.slow
def test_a_start_on_a_full_disk_gives_back_what_it_needs(tmp_path: Path, small_disk: Path) -> None:
    """Not an octet is free, and the reserve is there: the host starts, is not ready, and revokes."""
    config = placed(tmp_path, small_disk)
    with running(config) as host, RawLink(host) as link:
        assert book(link, "before").status == 200
        assert (small_disk / "records.sqlite3.reserve").stat().st_size == RESERVE
    fill(small_disk, 0)
    with running(config) as host, RawLink(host) as link:
        assert_stops_agents(host, link)
        host.kill()
    (small_disk / "ballast").unlink()
    with running(config) as host:
        assert any("agtphost ready:" in line for line in host.lines)
        assert verified(host, stored(small_disk / "records.sqlite3")).faults == []
    assert set(marks(config)) == {"before"}


@pytest.mark.slow
def test_a_first_start_below_the_reserve_says_what_is_missing(tmp_path: Path, small_disk: Path) -> None:
    """It takes as much as there is, serves what is vital when the rest is gone too, and is ready once there is room."""
    config = placed(tmp_path, small_disk)
    ballast = fill(small_disk, 12 << 20)
    with running(config) as host, RawLink(host) as link:
        until(lambda: any("too little" in line and "Make room" in line for line in host.lines))
        held = (small_disk / "records.sqlite3.reserve").stat().st_size
        assert 4 << 20 <= held < RESERVE
        rest = small_disk / "rest"
        with rest.open("wb") as file, suppress(OSError):
            while True:
                file.write(bytes(1 << 16))
        assert_stops_agents(host, link)
        ballast.unlink()
        rest.unlink()
        until(lambda: any("agtphost ready:" in line for line in host.lines))
        assert (small_disk / "records.sqlite3.reserve").stat().st_size == RESERVE


@pytest.mark.slow
@pytest.mark.parametrize("keyed", [False, True])
def test_the_first_call_after_an_idle_time_runs_nothing_on_a_full_disk(
    tmp_path: Path, small_disk: Path, keyed: bool
) -> None:
    """Nobody called while others filled the disk, and no space is kept: 503, and the handler has not run."""
    config = placed(tmp_path, small_disk, reserve=0)
    with running(config) as host, RawLink(host) as link:
        assert book(link, "before").status == 200
        ballast = fill(small_disk, 0)
        assert host.agtp("--version").returncode == 0, "which takes longer than a look at the disk may be old"
        assert_refused(host, book(link, "first", "key" if keyed else None))
        assert set(marks(config)) == {"before"}
        ballast.unlink()
        until(lambda: link.ask("ECHO", "/text", {"text": "again"}).status == 200)
