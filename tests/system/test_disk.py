"""
A full disk: 503 before any handler runs, nothing acknowledged that is not durable, and recovery (T-ST).

The store lies on a file system in memory of 64 MiB where this machine lets one be mounted.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agtphost.audit.drafts import HOST_CHAIN
from agtphost.identity.jws import verify
from agtphost.vocabulary.identifiers import ZERO_AUDIT_ID
from tests.system.hosting import Host, running, until
from tests.system.raw_link import Answer, RawLink, request
from tests.system.trail import finish, keys, marks, stored, traced, verified

FAULTY = Path(__file__).with_name("faulty_host.py")
SIZE = 64 << 20
PADDING = "x" * 20_000
"""Results of keyed requests are stored: these fill the disk faster than records do."""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    command = [mount or "mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=700", "tmpfs", str(folder)]
    if mount is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let a file system be mounted; that takes root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def with_store(tmp_path: Path, database: Path, floor: int) -> Path:
    """The traced deployment with its store somewhere else."""
    return traced(tmp_path, append=f'\n[store]\nurl = "sqlite:{database}"\nfree_space_floor = {floor}\n')


def fill(folder: Path, leave: int) -> Path:
    """Take all but so many octets of a file system."""
    ballast = folder / "ballast"
    free = os.statvfs(folder)
    with ballast.open("wb") as file:
        left = free.f_bavail * free.f_frsize - leave
        while left > 0:
            try:
                left -= file.write(bytes(min(left, 1 << 20)))
            except OSError as error:  # The host took some of it meanwhile.
                if error.errno != errno.ENOSPC or leave:
                    raise
                break
    return ballast


def book(link: RawLink, mark: str, key: str | None = None) -> Answer:
    """A call whose handler leaves a mark."""
    body = {"mark": mark, "padding": PADDING}
    return link.ask("BOOK", "/stay", body, **({} if key is None else {"Idempotency_Key": key}))


def assert_refused(host: Host, answer: Answer) -> None:
    """503 as design decision 8 says it: signed, marked, outside every chain."""
    assert (answer.status, answer.reason) == (503, "store-unavailable")
    assert int(answer.headers["retry-after"]) > 0
    payload = verify(answer.record, keys(host))
    assert payload["durable"] is False
    assert payload["status"] == 503
    assert payload["previous_audit_id"] == ZERO_AUDIT_ID
    assert payload["agent_id"] == ""


def assert_truthful(host: Host, database: Path, answers: dict[str, Answer]) -> None:
    """What was acknowledged is stored; what was refused is not; the chains are whole."""
    records = stored(database)
    assert verified(host, records).faults == []
    held = {record.audit_id for record in records}
    for mark, answer in answers.items():
        assert (answer.audit_id in held) == (answer.status != 503), (mark, answer.status)


def test_no_handler_runs_below_the_floor(tmp_path: Path) -> None:
    """
    A disk with less free than the floor, from the start: everything is 503, and nothing happens.

    The port accepts and reading goes on, so that an operator can see what is wrong.
    """
    free = os.statvfs(tmp_path)
    floor = free.f_bavail * free.f_frsize * 4
    config = with_store(tmp_path, tmp_path / "records.sqlite3", floor)
    with running(config) as host, RawLink(host) as link:
        for number in range(5):
            assert_refused(host, book(link, f"plain-{number}"))
            assert_refused(host, book(link, f"keyed-{number}", f"key-{number}"))
            assert_refused(host, link.ask("ECHO", "/text", {"text": "nothing"}))
        assert_refused(host, link.ask("DISCOVER", "/"))
        assert not marks(config)
        # Of its own, the host records the numbers under which its documents are published already.
        assert [record for record in stored(tmp_path / "records.sqlite3") if record.chain != HOST_CHAIN] == []
    # Said once, not for each request: the log may be on the same disk.
    assert len([line for line in host.lines if "the store does not take records" in line]) == 1, host.output


@pytest.mark.slow
def test_a_disk_that_runs_low_is_noticed_before_it_is_full(tmp_path: Path, small_disk: Path) -> None:
    """
    With a floor, not one handler runs in vain: as many marks as acknowledged calls, to the last one. What a
    handler does that had begun before is recorded in the space below the floor.

    When there is space again the host serves by itself, and the chains are as if nothing had been.
    """
    database = small_disk / "records.sqlite3"
    config = with_store(tmp_path, database, 32 << 20)
    answers: dict[str, Answer] = {}
    with running(config) as host, RawLink(host) as link, RawLink(host) as slow:
        answers["first"] = book(link, "first")
        assert answers["first"].status == 200
        slow.send(request("BOOK", "/stay", {"mark": "slow", "awaited": "space"}, Idempotency_Key="slow"))
        until(lambda: marks(config)["slow"])
        ballast = fill(small_disk, 24 << 20)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            mark = f"filling-{len(answers)}"
            answers[mark] = book(link, mark, mark)
            if answers[mark].status != 200:
                break
            time.sleep(0.01)
        assert_refused(host, answers[mark])
        for number in range(20):
            mark = f"full-{number}"
            answers[mark] = book(link, mark, mark if number % 2 else None)
            assert_refused(host, answers[mark])
        finish(config, "space")
        finished = slow.answer()
        assert finished is not None
        assert finished.status == 200
        answers["slow"] = finished
        assert_refused(host, book(link, "still full"))
        served = {mark for mark, answer in answers.items() if answer.status == 200}
        assert marks(config) == dict.fromkeys(served, 1)
        until(lambda: any("free" in line and "does not take records" in line for line in host.lines))

        ballast.unlink()
        until(lambda: link.ask("ECHO", "/text", {"text": "again"}).status == 200)
        # A key that was refused was not used up.
        answers["repeated"] = book(link, "full-1", "full-1")
        assert answers["repeated"].status == 200
        assert marks(config)["full-1"] == 1
        assert_truthful(host, database, answers)


def exhaust(host: Host, link: RawLink, small_disk: Path) -> dict[str, Answer]:
    """Calls until long after the disk is full to the last page."""
    answers = {"first": book(link, "first")}
    assert answers["first"].status == 200
    fill(small_disk, 512 << 10)
    refused = 0
    while refused < 20:
        mark = f"filling-{len(answers)}"
        answers[mark] = book(link, mark, mark)
        refused += answers[mark].status != 200
        assert len(answers) < 5000, "the disk does not get full"
    return answers


@pytest.mark.slow
def test_a_full_disk_is_never_answered_with_200(tmp_path: Path, small_disk: Path) -> None:
    """
    T-ST: without a floor, SQLite meets ENOSPC itself, in a reservation or in a record.

    At most the one call that met it ran without a record, and its key stays in doubt; later ones never
    reach a handler.
    """
    database = small_disk / "records.sqlite3"
    config = with_store(tmp_path, database, 0)
    with running(config) as host, RawLink(host) as link:
        answers = exhaust(host, link, small_disk)
        refused = [mark for mark, answer in answers.items() if answer.status != 200]
        for mark in refused:
            assert_refused(host, answers[mark])
        ran = marks(config)
        assert max(ran.values()) == 1
        in_vain = ran.keys() & set(refused)
        assert in_vain <= {refused[0]}, "a handler ran although the store was known to be full"
        assert all(ran[mark] for mark, answer in answers.items() if answer.status == 200)

        (small_disk / "ballast").unlink()
        until(lambda: link.ask("ECHO", "/text", {"text": "again"}).status == 200)
        for mark in in_vain:
            again = book(link, mark, mark)
            assert (again.status, again.reason) == (409, "idempotency-in-doubt")
        assert book(link, refused[-1], refused[-1]).status == 200
        assert max(marks(config).values()) == 1
        assert_truthful(host, database, answers)
    with running(config) as host, RawLink(host) as link:
        assert book(link, "after a restart").status == 200
        assert_truthful(host, database, answers)


@pytest.mark.release
@pytest.mark.slow
def test_a_host_that_ignores_its_store_is_caught(tmp_path: Path, small_disk: Path) -> None:
    """The control: a host that takes a failed transaction for done answers 200 to what is not stored."""
    database = small_disk / "records.sqlite3"
    config = with_store(tmp_path, database, 0)
    with running(config, prefix=(sys.executable, str(FAULTY), "careless")) as host, RawLink(host) as link:
        answers = {"first": book(link, "first")}
        fill(small_disk, 512 << 10)
        for number in range(200):
            answers[f"filling-{number}"] = book(link, f"filling-{number}")
        (small_disk / "ballast").unlink()
        with pytest.raises(AssertionError):
            assert_truthful(host, database, answers)
