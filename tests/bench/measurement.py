"""
What all benchmarks measure with: servers on one core, the load on the other, requests per second of the server's CPU.

Rounds of what is compared are interleaved, so that a machine that is shared or slow moves all figures together.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from tests.bench.load import Tally, run
from tests.system.gateways import TOKEN
from tests.system.hosting import until

BENCH = Path(__file__).parent
Load = Callable[[int, float], Tally]


def pin(core: int) -> None:
    """Keep this process on one core, where there is more than one."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[core % len(cores)]})


def cpu_seconds(pid: int) -> float:
    """What a process has used so far, its threads included, its children not."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def measured(load: Callable[[], Tally], *pids: int) -> tuple[Tally, float]:
    """Run a round, and return it with the CPU seconds that the servers took in it."""
    before = sum(map(cpu_seconds, pids))
    tally = load()
    return tally, sum(map(cpu_seconds, pids)) - before


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


@contextmanager
def helper(*words: str, port: int = 0) -> Iterator[tuple[int, int]]:
    """
    Start a server of the comparison on core 0, and tell its port and pid.

    :param words: its command.
    :param port: where it will listen; 0: it prints that.
    """
    process = subprocess.Popen(["taskset", "-c", "0", *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        if not port:
            assert process.stdout is not None
            port = int(process.stdout.readline())
        until(lambda: _accepts(port), 30)
        yield port, process.pid
    finally:
        process.kill()
        process.wait()


def agtp_request(agent_id: str) -> bytes:
    """The measured call: a registered function with schemas, as an identified agent with a task."""
    body = json.dumps({"parameters": {"text": "the quick brown fox"}}, separators=(",", ":")).encode()
    head = (
        f"AGTP/1.0 ECHO /text\r\nAgent-ID: {agent_id}\r\nAuthority-Scope: documents:query\r\n"
        f"Task-ID: task-0042\r\nSession-ID: sess-a1b2c3d4\r\nContent-Type: application/vnd.agtp+json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def gateway_request(port: int) -> bytes:
    """The same call as HTTP clients make it, with a key that is the same agent."""
    body = json.dumps({"parameters": {"text": "the quick brown fox"}}, separators=(",", ":")).encode()
    head = (
        f"ECHO /text HTTP/1.1\r\nHost: localhost:{port}\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Task-ID: task-0042\r\nSession-ID: sess-http-a1b2c3d4\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@dataclass(frozen=True)
class Subject:
    """One thing that is measured."""

    name: str
    load: Load
    """Loads it with so many calls at a time for so many seconds."""

    pids: tuple[int, ...] = ()
    """The processes whose CPU is counted."""


def loaded(port: int, context: ssl.SSLContext | None, requests: Callable[[], bytes], good: bytes) -> Load:
    """Return what loads a port of this machine, each call on a connection of its own."""

    def load(connections: int, seconds: float) -> Tally:
        return run(("127.0.0.1", port), context, requests, connections=connections, seconds=seconds, good=good)

    return load


def fsync_probe(directory: Path) -> float:
    """Median seconds of a small write with fdatasync on the store's disk, in the same run."""
    times = []
    with (directory / "probe").open("wb") as stream:
        for _ in range(200):
            begun = time.perf_counter()
            stream.write(b"x" * 4096)
            stream.flush()
            os.fdatasync(stream.fileno())
            times.append(time.perf_counter() - begun)
    return statistics.median(times)


class Figures:
    """Rounds of one subject with one number of connections."""

    def __init__(self) -> None:
        self.rates: list[float] = []
        """Requests a second, a round."""

        self.cpu: list[float] = []
        """Seconds of the servers' CPU a request."""

        self.p50: list[float] = []
        self.p99: list[float] = []

    def add(self, tally: Tally, cpu: float) -> None:
        """Take the figures of a round, all of whose answers were the expected ones."""
        wrong = f"{tally.bad} of {tally.requests} answers were not the expected ones, such as {tally.example!r}"
        assert tally.requests and tally.bad == 0, wrong
        self.rates.append(tally.rate)
        self.cpu.append(cpu / tally.requests)
        self.p50.append(tally.percentile(0.5))
        self.p99.append(tally.percentile(0.99))

    def summary(self) -> dict[str, float]:
        """Return the medians of the rounds, and how far the rounds lie apart."""
        cpu, rate = statistics.median(self.cpu), statistics.median(self.rates)
        spread = (max(self.rates) - min(self.rates)) / rate
        if cpu:
            spread = (max(self.cpu) - min(self.cpu)) / cpu
        return {
            "requests_per_second": round(rate),
            "cpu_us": round(cpu * 1e6, 1),
            "p50_ms": round(statistics.median(self.p50) * 1000, 3),
            "p99_ms": round(statistics.median(self.p99) * 1000, 3),
            "spread": round(spread, 3),
        }


def measure(
    subjects: Iterable[Subject], connections: Sequence[int], *, seconds: float, rounds: int, tell: Callable[[str], None]
) -> dict[str, dict[str, float]]:
    """
    Measure the subjects in interleaved rounds, after one short round that warms each up.

    :param connections: how many calls at a time.
    :param seconds: of one round of one subject.
    :param tell: told what is measured now.
    :return: the figures by ``NAME@CONNECTIONS``: requests_per_second, cpu_us, p50_ms, p99_ms, and the spread between
        rounds as a share of the median.
    """
    subjects, figures = list(subjects), dict[str, Figures]()
    for subject in subjects:
        subject.load(min(connections), min(seconds, 0.5))
    for number in range(rounds):
        for count in connections:
            for subject in subjects:
                tell(f"round {number + 1} of {rounds}: {subject.name}, {count} at a time")
                found = measured(partial(subject.load, count, seconds), *subject.pids)
                figures.setdefault(f"{subject.name}@{count}", Figures()).add(*found)
    return {name: each.summary() for name, each in figures.items()}
