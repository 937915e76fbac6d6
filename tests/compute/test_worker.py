"""The program of a worker process, over its pipes: limits, stops, crashes."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agtphost.compute import functions, worker
from tests.methods.standard import costly

ENDLESS = {"call": costly.COSTLY["EVALUATE"]["conditions"]()}
ADDED = {"expression": {"op": "add", "args": [1, 2]}, "inputs": {}}


class Running:
    """A worker with small limits."""

    def __init__(self, seconds: int = 1, memory: int = 64 << 20) -> None:
        reading, self._control = os.pipe()
        self._number = 0
        made = f"Worker(0, 1, {reading}, seconds={seconds}, memory={memory})"
        code = f"from agtphost.compute.worker import Worker; {made}.run()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, pass_fds=[reading]
        )
        os.close(reading)
        assert self.answer()[0] == functions.READY

    def send(self, name: str, given: Any) -> None:
        octets = json.dumps(given).encode()
        assert self.process.stdin is not None
        self._number += 1
        self.process.stdin.write(worker.HEAD.pack(self._number, len(name), len(octets)) + name.encode() + octets)

    def _read(self, length: int) -> bytes:
        assert self.process.stdout is not None
        found = b""
        while len(found) < length:
            piece = self.process.stdout.read(length - len(found))
            assert piece, "the worker ended"
            found += piece
        return found

    def answer(self) -> tuple[bytes, bytes]:
        kind, length = worker.ANSWER_HEAD.unpack(self._read(worker.ANSWER_HEAD.size))
        return kind, self._read(length)

    def asked(self, name: str, given: Any) -> tuple[bytes, bytes]:
        self.send(name, given)
        return self.answer()

    def stop(self) -> None:
        """Stop the computation that was sent last."""
        os.write(self._control, worker.CONTROL.pack(self._number))

    def end(self) -> None:
        os.close(self._control)
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def child(self) -> int:
        """The process of the computation that runs, once there is one."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        while not (found := children.read_text().split()):
            assert self.process.poll() is None
        return int(found[0])


@pytest.fixture
def running() -> Iterator[Running]:
    found = Running()
    yield found
    found.end()


def test_a_worker_answers_one_computation_after_the_other(running: Running) -> None:
    for _ in range(3):
        kind, said = running.asked("calculate", ADDED)
        assert kind == functions.RESULT and json.loads(said)["value"] == "3"


def test_a_computation_that_takes_too_long_is_ended(running: Running) -> None:
    """The worker goes on with the next one."""
    assert running.asked("evaluate", ENDLESS) == (functions.TOO_MUCH_TIME, b"")
    assert running.asked("calculate", ADDED)[0] == functions.RESULT


def test_a_computation_that_needs_too_much_memory_is_ended() -> None:
    """What it took is free again, and the next one has as much."""
    running = Running(seconds=30, memory=8 << 20)
    try:
        table = {"source": costly.table(20, 9_999, 489_000), "target_format": "json"}
        assert running.asked("transform", table) == (functions.TOO_MUCH_MEMORY, b"")
        assert running.asked("calculate", ADDED)[0] == functions.RESULT
    finally:
        running.end()


def test_a_function_that_breaks_is_told(running: Running) -> None:
    """The answer has the traceback, for the operator."""
    kind, said = running.asked("held-items", {})
    assert kind == functions.FAILED and b"Traceback" in said
    kind, said = running.asked("unregistered", {})
    assert kind == functions.FAILED and b"KeyError" in said


def test_a_computation_that_has_not_begun_is_stopped_by_its_number(running: Running) -> None:
    """However early it comes after the computation was sent."""
    for _ in range(20):
        running.send("evaluate", ENDLESS)
        running.stop()
        assert running.answer() == (functions.STOPPED, b"")


def test_a_computation_is_stopped_by_its_number(running: Running) -> None:
    running.send("evaluate", ENDLESS)
    child = running.child()
    running.stop()
    assert running.answer() == (functions.STOPPED, b"")
    assert not Path(f"/proc/{child}").exists()
    running.stop()
    assert running.asked("calculate", ADDED)[0] == functions.RESULT, "what comes late stops nothing"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="prctl is Linux's")
def test_no_computation_outlives_its_worker(running: Running) -> None:
    running.send("evaluate", ENDLESS)
    child = running.child()
    reference = os.pidfd_open(child)
    try:
        running.process.kill()
        assert select.select([reference], [], [], 60)[0], "it computes on"
    finally:
        os.close(reference)


def test_a_worker_ends_with_its_input(running: Running) -> None:
    assert running.process.stdin is not None
    running.process.stdin.close()
    assert running.process.wait(60) == 0
