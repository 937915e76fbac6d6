"""The rig itself: hosts with deliberate faults are reported, each for its own reason, and a sound one is not."""

from __future__ import annotations

import socket
import ssl
import struct
import sys
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks import faulty_host, runner
from tests.attacks.__main__ import chosen, main
from tests.attacks.attack import MIB, Attack, Target
from tests.attacks.cores import cores
from tests.attacks.reach import Reach, watched
from tests.attacks.runner import Result, Sample, Window, attempt, standing
from tests.attacks.site import amend, made
from tests.system.raw_link import RawLink, client_context

GARBAGE = 24
"""Requests: enough for each fault to show, few enough that every one of them is admitted."""


def garbage(target: Target, seconds: float) -> None:
    """Some requests that are none."""
    context = client_context(target, identified=True)
    for _ in range(GARBAGE):
        try:
            with RawLink(target, context=context) as link:
                link.send(b"no request\r\n\r\n")
                link.answer()
        except OSError:
            continue


def wrong(target: Target, seconds: float) -> None:
    raise AssertionError("the host told a secret")


ATTACK = Attack(name="some-garbage", who="agent", says="A control.", run=garbage, memory=64 * MIB, disk=50 * MIB)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("attacks"))


def against(template: Path, folder: Path, fault: str | None, attack: Attack = ATTACK, *, share: float = 1.0) -> Result:
    file = str(faulty_host.__file__)
    prefix = () if fault is None else (sys.executable, file, fault)
    with standing(template, folder / "site", cores(), attack.configure, prefix, share=share) as stand:
        return attempt(stand, attack, seconds=4, quiet=1, floor=0.025)


@pytest.fixture(scope="module")
def sound(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Result]:
    yield against(template, tmp_path_factory.mktemp("sound"), None)


@pytest.mark.release
@pytest.mark.slow
def test_a_sound_host_is_measured(sound: Result) -> None:
    """Every figure is there, and nothing fails but perhaps time, of which other tests on this machine take theirs."""
    assert sound.failures == []
    assert sound.calls > 50
    assert 0 < sound.quiet < sound.allowed
    assert 0 < sound.disk < ATTACK.disk
    assert sound.seconds > 0
    assert sound.sent >= sound.reached >= GARBAGE


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "told"),
    [("remembering", "memory grew by"), ("scribbling", "disk grew by"), ("failing", "honest calls failed")],
)
def test_a_fault_is_told(template: Path, tmp_path: Path, fault: str, told: str) -> None:
    """Controls: memory, disk, and calls of honest callers, of whom a fifth is enough to be harmed."""
    result = against(template, tmp_path, fault, share=0.2)
    assert not result.held
    assert [failure for failure in result.failures if told in failure], result.failures


@pytest.mark.release
@pytest.mark.slow
def test_a_host_that_stands_still_is_told(template: Path, tmp_path: Path) -> None:
    """The control for time: 24 times 150 ms in which nobody is answered."""
    result = against(template, tmp_path, "standing")
    assert not result.held
    assert any(slow.startswith("during, p99 of call") for slow in result.slow), (result.slow, result.during)


@pytest.mark.release
@pytest.mark.slow
def test_what_an_attack_finds_is_told(template: Path, tmp_path: Path) -> None:
    """An answer that shows that the host gave way; an attack that is itself broken; another configuration."""
    attack = Attack(
        name="wrong",
        who="stranger",
        says="A control.",
        run=wrong,
        configure=lambda folder: amend(folder, "limits", "requests_per_minute = 10\nanonymous_requests_per_minute = 1"),
    )
    result = against(template, tmp_path, None, attack)
    assert "gave way: the host told a secret" in result.failures
    # Before the attack, or beside it where a busy machine lets the callers make few calls.
    assert any("call: 429" in failure for failure in result.failures), "configure was not heeded"


def test_amend_adds_and_replaces(tmp_path: Path) -> None:
    """Tables that are there, and tables that are not."""
    file = tmp_path / "host.toml"
    file.write_text('[host]\nserver_id = "a"\n\n[limits]\nbody = 1\nheader_count = 2\n\n[wire]\n')
    amend(tmp_path, "limits", "body = 5\nheader_line = 6")
    amend(tmp_path, "policies", "x = true")
    amend(tmp_path, "policies", "y = true")
    found = tomllib.loads(file.read_text())
    assert found == {
        "host": {"server_id": "a"},
        "limits": {"body": 5, "header_line": 6, "header_count": 2},
        "wire": {},
        "policies": {"x": True, "y": True},
    }


def test_what_reaches_nobody_is_told() -> None:
    """Refused at the door, or nothing sent: a failed run. Answered, or ended after it was written to: it arrived."""
    with socket.create_server(("127.0.0.1", 0)) as server, watched([server.getsockname()[1]]) as reach:
        result = Result(ATTACK)
        runner._judge_reach(result, reach)
        assert result.failures == ["none of its 0 messages reached the host"]
        with socket.create_connection(server.getsockname()) as link:
            link.sendall(b"anybody?")
            server.accept()[0].close()
            link.setblocking(False)
        assert (reach.sent, reach.connections) == (1, 1)
        with socket.create_connection(server.getsockname()) as refused:
            there, _ = server.accept()
            there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            there.close()
            with pytest.raises(OSError, match="reset"):
                ssl.create_default_context().wrap_socket(refused, server_hostname="localhost")
        before = reach.reached
        with socket.create_connection(server.getsockname()) as link:
            link.sendall(b"hello")
            there, _ = server.accept()
            with there:
                there.sendall(b"welcome")
                assert link.recv(7) == b"welcome"
        assert reach.reached == before + 1
        told = Result(ATTACK)
        runner._judge_reach(told, reach)
        assert told.failures == [] and (told.reached, told.sent) == (reach.reached, reach.sent)
    assert socket.socket.__dict__.get("connect") is None, "nothing stays patched"


def samples(kind: str, *seconds: float) -> list[Sample]:
    return [Sample(kind, 0, float(number), value, None) for number, value in enumerate(seconds)]


def test_a_connection_that_is_collected_while_another_is_counted_is_counted_too() -> None:
    """Garbage is collected anywhere, in the middle of counting too: it waits for no lock of its own thread."""
    reach = Reach([1])
    done = threading.Event()

    class Collected(tuple[str, int]):
        def __getitem__(self, place: object) -> object:  # type: ignore[override]
            with reach._lock:
                reach.ended(7)
            return 1

    def count() -> None:
        with reach._lock:
            reach.opened(8, Collected(("127.0.0.1", 1)))
        done.set()

    threading.Thread(target=count, daemon=True).start()
    assert done.wait(120) and reach.connections == 1


def test_time_is_judged_by_the_quiet_and_by_the_machine() -> None:
    """Twice the p99, a floor, what the probe waited; one slow call of a hundred is none of them."""
    probe = samples("probe", *[0.001] * 100)
    before = Window([*samples("call", *[0.03] * 100), *probe])

    def judged(calls: list[float], waited: float = 0.001) -> list[str]:
        result = Result(ATTACK)
        during = Window([*samples("call", *calls), *samples("probe", *[waited] * 100)])
        runner._judge_time(result, before, {"during": during}, runner.FLOOR)
        return result.slow

    assert judged([0.059] * 100) == []
    assert judged([0.061] * 100) != []
    assert judged([0.061] * 100, waited=0.004) == []
    assert judged([0.03] * 99 + [9.0]) == []
    assert judged([0.03] * 98 + [9.0] * 2) != []
    before = Window([*samples("call", *[0.002] * 100), *probe])
    assert judged([2 * runner.FLOOR - 0.001] * 100) == []
    assert judged([2 * runner.FLOOR + 0.001] * 100) != []


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """It lists, chooses, and says what it does not know."""
    assert main(["--list"]) == 0
    assert "garbage-requests" in capsys.readouterr().out
    assert [attack.name for attack in chosen(["garbage-requests"])] == ["garbage-requests"]
    with pytest.raises(SystemExit, match="no attack 'nothing'"):
        main(["--only", "nothing", "--list"])
