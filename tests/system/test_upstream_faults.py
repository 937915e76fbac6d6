"""
Every fault of an upstream at one real host (P16, T-UP, T-MC): over one carrier each, and as a programme over all.

The table is in :mod:`tests.adapters.faults`. All calls are made once, when the first test wants them, and judged one
by one.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psutil
import pytest

from agtphost.identity import jws
from tests.adapters.faults.deployment import CASES, DEADLINE, Case, configuration, endpoints, request, upstreams
from tests.adapters.faults.registry import FAULTS
from tests.measuring import measured
from tests.programmes import length
from tests.rows import each_row
from tests.system.hosting import Host, running, sample, until
from tests.system.raw_link import Answer, RawLink, client_context
from tests.system.trail import database, keys, stored, verified

FAULTY = Path(__file__).with_name("faulty_host.py")
PLAYED = length(
    tuple(case for case in CASES if case.letter == case.fault.carriers[case.number % len(case.fault.carriers)]), CASES
)
"""Shortened, the carriers take turns."""

AT_ONCE = 6
PAUSE = 0.02
"""Seconds between two measurements of the host's memory."""

CALLED = length(5, 1)
"""Measurements for each honest call."""

SLACK = length(30.0, 1.0)
"""Seconds beyond a deadline: beside other tests only that the call ends, alone on a machine also how soon."""

HANGS = 1.0
"""Seconds beyond a deadline for which the control waits."""

MIB = 1 << 20
GROWTH = 192 * MIB
"""Of the host, with more than 500 upstreams that misbehave, and answers of 16 MiB; 133 MiB were seen."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(length(300, 3600))]


@dataclass
class Outcome:
    """What became of one call."""

    status: int
    reason: str | None
    seconds: float
    audit_id: str
    record: str
    after: int
    """The status of an honest call after it."""

    late: float = 0.0
    """Seconds that the slowest honest call took meanwhile: how late this machine is, and this host."""

    @property
    def words(self) -> str:
        return f"{self.status} {self.reason}" if self.reason else str(self.status)


@dataclass
class Run:
    """Everything that was seen while all faults played."""

    host: Host
    ports: dict[str, int]
    program: int
    """The process that plays the upstreams over HTTP."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    quiet: list[float] = field(default_factory=list)
    """Seconds that each honest call took before."""

    honest: list[float] = field(default_factory=list)
    """Seconds that each honest call took meanwhile."""

    late: list[float] = field(default_factory=list)
    """Seconds that the honest caller woke up too late each time: how busy this machine is."""

    while_heavy: dict[str, float] = field(default_factory=dict)
    """The longest of them for each fault that was played alone."""

    descriptors: int = 0
    """Before any upstream was called."""

    base: int = 0
    peak: int = 0

    @property
    def process(self) -> psutil.Process:
        return psutil.Process(self.host.process.pid)


def final(link: RawLink, case: Case) -> Answer:
    """The answer to a call, after its interim messages."""
    method, path, body = request(case)
    answer = link.ask(method, path, body)
    while "continuation-token" in answer.headers:
        following = link.answer()
        assert following is not None
        answer = following
    return answer


def play(case: Case, link: RawLink) -> Outcome:
    """One call, and an honest one after it."""
    began = time.monotonic()
    answer = final(link, case)
    took = time.monotonic() - began
    after = link.ask("ECHO", "/text", {"text": "honest"}).status
    return Outcome(answer.status, answer.reason, took, answer.audit_id, answer.record, after)


def warm(case: Case, link: RawLink) -> None:
    """See that the upstream is up: its other tool answers."""
    method, path, body = request(case, "rest")
    until(lambda: link.ask(method, path, body).status == 200, pause=0.05)


@contextmanager
def deployed(folder: Path, cases: tuple[Case, ...], prefix: tuple[str, ...] = ()) -> Iterator[Run]:
    """A host with those upstreams."""
    certificates = folder / "upstreams"
    with upstreams(certificates) as (program, ports):
        config = sample(folder, append=configuration(cases, ports, certificates))
        for name, text in endpoints(cases, ports, certificates).items():
            (config.parent / "endpoints" / name).write_text(text)
        with running(config, prefix=prefix) as host:
            yield Run(host, ports, program)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """The host that all faults were played at."""
    with deployed(tmp_path_factory.mktemp("faults"), PLAYED) as run:
        run.descriptors = run.process.num_fds()
        play_all(run)
        yield run


def play_all(run: Run) -> None:
    """Wake the upstreams, then play the light faults some at a time and each heavy one alone."""
    local, context = threading.local(), client_context(run.host)
    links: list[RawLink] = []

    def link() -> RawLink:
        if not hasattr(local, "link"):
            local.link = RawLink(run.host, context=context)
            links.append(local.link)
        found: RawLink = local.link
        return found

    def one(case: Case) -> None:
        before = len(run.honest)
        outcome = run.outcomes[case.id] = play(case, link())
        outcome.late = max(run.honest[before:], default=0.0)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda case: warm(case, link()), [c for c in PLAYED if c.letter in "PH" and not c.fault.early]))
        run.base = run.base or run.process.memory_info().rss
        for _ in range(200):
            since = time.monotonic()
            assert link().ask("ECHO", "/text", {"text": "honest"}).status == 200
            run.quiet.append(time.monotonic() - since)
        with watching(run):
            list(pool.map(one, [case for case in PLAYED if not case.fault.heavy]))
            for case in PLAYED:
                if case.fault.heavy:
                    before = len(run.honest)
                    pool.submit(one, case).result()
                    run.while_heavy[case.id] = max(run.honest[before:], default=0.0)
    for each in links:
        each.close()


class watching:
    """Call honestly, and measure memory, until the block ends."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *failure: object) -> None:
        self._over.set()
        self._thread.join(120)

    def _watch(self) -> None:
        process = self._run.process
        with RawLink(self._run.host) as link:
            for number in count():
                rested = time.monotonic()
                if self._over.wait(PAUSE):
                    return
                since = time.monotonic()
                self._run.late.append(since - rested - PAUSE)
                self._run.peak = max(self._run.peak, process.memory_info().rss)
                if number % CALLED:
                    continue
                assert link.ask("ECHO", "/text", {"text": "honest"}).status == 200
                self._run.honest.append(time.monotonic() - since)


def test_the_table_is_as_large_as_promised() -> None:
    """P16: 60 scripts for each of HTTPS, MCP over stdio and MCP over HTTP, and as many for A2A and ACP."""
    for letter in "PHSAC":
        assert sum(letter in fault.carriers for fault in FAULTS.values()) >= 60


def test_each_fault_and_each_carrier_has_its_turn() -> None:
    """Shortened or whole."""
    assert {case.fault.name for case in PLAYED} == set(FAULTS)
    for letter in "PHSAC":
        assert sum(case.letter == letter for case in PLAYED) >= 10


@measured
@pytest.mark.programme
@each_row("case", PLAYED, [case.id for case in PLAYED])
def test_every_call_ends_in_time_with_its_answer(run: Run, case: Case) -> None:
    """P16: within the deadline and a second, with the status and reason of that fault; the host answers others."""
    outcome = run.outcomes[case.id]
    assert outcome.words in case.fault.answers[case.letter]
    assert outcome.seconds < case.deadline + SLACK + outcome.late
    assert outcome.after == 200


def test_every_answer_is_sealed(run: Run) -> None:
    """Security invariant 1: each record that was sent is in the store and says the same status; the chains verify."""
    records = stored(database(run.host))
    known = {record.audit_id for record in records}
    for name, outcome in run.outcomes.items():
        assert outcome.audit_id in known, name
        assert jws.verify(outcome.record, keys(run.host))["status"] == outcome.status, name
    assert not verified(run.host, records).faults


def test_honest_callers_hardly_notice(run: Run) -> None:
    """P13: one call in a hundred took over a quarter of a second, at most, or what a busy machine makes of it."""
    honest, quiet, late = sorted(run.honest), sorted(run.quiet), sorted(run.late)
    worst = max(run.while_heavy, key=run.while_heavy.__getitem__)
    print(f"{len(honest)} honest calls, the longest {honest[-1]:.3f} s; with {worst} {run.while_heavy[worst]:.3f} s")
    # A call waits for a core some ten times, in this process and in the host's.
    busy = max(25 * quiet[int(len(quiet) * 0.99)], 10 * late[int(len(late) * 0.99)])
    assert honest[int(len(honest) * 0.99)] < max(0.25, busy)


def test_memory_is_bounded(run: Run) -> None:
    """P16: however much they send, the host keeps little of it."""
    print(f"{run.base // MIB} MiB, and {run.peak // MIB} MiB at the most")
    assert run.peak - run.base < GROWTH


READERS = 8
"""Descriptors; a leak with each call would be hundreds."""


def test_descriptors_are_accounted_for(run: Run) -> None:
    """
    P16: what is open beyond the start are four pipes for each child that lives, once no upstream over HTTP does.

    And the connections of the store's readers, which are opened as several read at once, and are then kept.
    """
    psutil.Process(run.program).kill()
    process = run.process
    until(lambda: process.num_fds() <= run.descriptors + 4 * len(process.children()) + READERS)


def test_no_child_is_a_zombie_or_left_behind(run: Run) -> None:
    """P16: none is unreaped while the host runs, and none of their descendants outlives it."""
    family = run.process.children(recursive=True)

    def zombie(child: psutil.Process) -> bool:
        try:
            return bool(child.status() == psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            # Servers that read nothing are restarted meanwhile.
            return False

    until(lambda: not any(zombie(each) for each in run.process.children()), 60)
    began = time.monotonic()
    assert run.host.stop() == 0
    assert time.monotonic() - began < 30, "servers that are deaf to SIGTERM are ended together"
    until(lambda: not any(each.is_running() for each in family), 60)


SILENT = tuple(case for case in CASES if case.fault.name == "never-answers")


@pytest.mark.release
def test_without_deadlines_every_call_would_hang(tmp_path: Path) -> None:
    """The control: a host whose deadlines are switched off is still silent when all answers should be there."""
    with deployed(tmp_path, SILENT, (sys.executable, str(FAULTY), "patient")) as patient:
        context = client_context(patient.host)
        links = [RawLink(patient.host, context=context, timeout=DEADLINE + HANGS) for _ in SILENT]
        for link, case in zip(links, SILENT, strict=True):
            if case.letter in "PH":
                warm(case, link)
        with ThreadPoolExecutor(len(SILENT)) as pool:
            waiting = [pool.submit(final, link, case) for link, case in zip(links, SILENT, strict=True)]
            assert [type(each.exception()) for each in waiting] == [TimeoutError] * len(SILENT)
        for link in links:
            link.close()
        patient.host.kill()
