"""
Runs an attack beside honest callers, measures, and judges.

One attempt is: quiet, the attack, quiet again. The honest callers are a process of their own and never stop. p99 is
that of all calls that were due in a window, of each kind by itself, and the bound of an attack is ``slower`` times the
p99 of the window before it, or of ``FLOOR`` where that is less, plus what the probe waited longer than in that window
(see :mod:`tests.attacks.honest`). The attackers' own work, on the core of the honest callers, is done at a lower
priority. The bound holds while the attack runs and afterwards: a host that has to be waited for
when the attack is over has not withstood it. A busy machine makes slow calls as well, so an attempt that fails for
time alone is made again, up to ``ATTEMPTS`` times; memory, disk, a wrong answer, and a single failed call of an honest
caller are failures at once.

How many messages of the attack reached the host is counted beside; where none did, the run has failed.

Memory and disk are the highest growth from the beginning of the attack to the end of the second quiet window. The
records of the honest callers are in the disk figure, about 300 KB a second.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests import forking
from tests.attacks import honest
from tests.attacks.attack import OVERTIME, Attack
from tests.attacks.cores import Cores, staying
from tests.attacks.honest import CALLERS, PATIENCE, rates
from tests.attacks.measure import Gauge
from tests.attacks.reach import Reach, watched
from tests.attacks.site import Site, copied, serving
from tests.system.hosting import until

ROOT = Path(__file__).resolve().parents[2]

FLOOR = 0.025
"""Seconds: a p99 below this counts as this; on a quiet machine calls take 2 to 5 ms, and a few more are no harm."""

ATTEMPTS = 3
LEAST = 1.0
"""Seconds that the window of an attack has at least, however soon the attack ends."""

TIMED = ("call", "tool", "quic")
"""The kinds whose p99 is judged; of the others there are too few, and only their errors count."""

NICE = 10
"""
Of the thread that attacks, and of the threads and processes that it starts.

0 where other work keeps both cores busy: the scheduler leaves a tenth of a share to what is nice, and an attack that
needs a second of processor time does not end in a minute.
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """One call of an honest caller."""

    kind: str
    number: int
    """Of the caller."""

    due: float
    seconds: float
    wrong: str | None


class Callers:
    """The process of the honest callers, and what it has said."""

    def __init__(self, site: Site, cores: Cores, share: float = 1.0) -> None:
        self._rates = rates(share, quic=site.quic)
        words = ["--port", site.port, "--state", site.state, "--front", site.front, "--wellknown", site.wellknown]
        words += ["--share", share]
        words += ["--quic"] * site.quic
        if cores.host is not None:
            words += ["--host-core", cores.host]
        self.samples: list[Sample] = []
        self._process = forking.start(
            [sys.executable, honest.__file__, *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self._last = {(kind, number): -math.inf for kind in self._rates for number in range(CALLERS[kind])}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        until(lambda: min(self._last.values()) > 0, 60)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            sample = Sample(*json.loads(line))
            self.samples.append(sample)
            self._last[sample.kind, sample.number] = sample.due

    def heard_until(self, moment: float) -> None:
        """Wait until it is that late, and every call of each caller that was due before has ended."""
        time.sleep(max(0.0, moment - time.monotonic()))
        until(
            lambda: all(due + 1 / self._rates[kind] >= moment for (kind, _), due in self._last.items()),
            2 * PATIENCE + 5,
        )

    def between(self, begin: float, end: float) -> Window:
        """The calls that were due in a stretch of time; waits for them."""
        self.heard_until(end)
        return Window([sample for sample in self.samples if begin <= sample.due < end])

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE + 5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(5)


class Nobody:
    """In the place of :class:`Callers`, where none are to call."""

    def heard_until(self, moment: float) -> None:
        """Wait until it is that late."""
        time.sleep(max(0.0, moment - time.monotonic()))

    def between(self, begin: float, end: float) -> Window:
        """No calls."""
        return Window([])

    def stop(self) -> None:
        """Nothing runs."""


@dataclass(frozen=True)
class Window:
    """The calls of a stretch of time."""

    samples: Sequence[Sample]

    def p99(self, kind: str) -> float:
        """Seconds."""
        taken = sorted(sample.seconds for sample in self.samples if sample.kind == kind)
        return taken[math.ceil(len(taken) * 0.99) - 1] if taken else 0.0

    @property
    def errors(self) -> list[str]:
        return [f"{sample.kind}: {sample.wrong}" for sample in self.samples if sample.wrong is not None]


@dataclass
class Result:
    """What came of an attack."""

    attack: Attack
    quiet: float = 0.0
    """p99 before, of the kind that suffered most; seconds."""

    during: float = 0.0
    allowed: float = 0.0
    kind: str = "call"
    calls: int = 0
    errors: list[str] = field(default_factory=list)
    memory: int = 0
    disk: int = 0
    seconds: float = 0.0
    """Processor time of the host."""

    sent: int = 0
    """Messages of the attack; see :mod:`tests.attacks.reach`."""

    reached: int = 0
    """Those of them that the host took up."""

    lasted: float = 0.0
    attempts: int = 1
    slow: list[str] = field(default_factory=list)
    """What was too slow."""

    failures: list[str] = field(default_factory=list)
    """What else is wrong."""

    @property
    def held(self) -> bool:
        """The verdict."""
        return not self.slow and not self.failures


@dataclass
class Stand:
    """A host with honest callers beside it."""

    site: Site
    callers: Callers | Nobody

    def quiet(self, seconds: float) -> Window:
        """Do nothing for a while."""
        since = time.monotonic()
        self.callers.heard_until(since + seconds)
        return self.callers.between(since, since + seconds)


@contextmanager
def standing(
    template: Path,
    folder: Path,
    cores: Cores,
    configure: Callable[[Path], None] | None = None,
    prefix: Sequence[str] = (),
    *,
    honest: bool = True,
    share: float = 1.0,
) -> Iterator[Stand]:
    """
    A new host, a copy of ``template``, and honest callers, if any, who have been answered once each.

    :param share: of the frequent honest calls.
    """
    config = copied(template, folder)
    if configure is not None:
        configure(folder)
    with staying(cores.callers), serving(config, cores.host, prefix) as site:
        callers = Callers(site, cores, share) if honest else Nobody()
        try:
            yield Stand(site, callers)
        finally:
            callers.stop()


def attempt(
    stand: Stand,
    attack: Attack,
    *,
    seconds: float,
    quiet: float,
    floor: float = FLOOR,
    least: float = LEAST,
    nice: int = NICE,
) -> Result:
    """Quiet, attack, quiet; ``floor`` as :data:`FLOOR`, ``least`` as :data:`LEAST`, ``nice`` as :data:`NICE`."""
    result = Result(attack)
    if attack.prepare is not None:
        attack.prepare(stand.site)
    before = stand.quiet(quiet)
    result.failures += [f"before the attack, {error}" for error in before.errors[:3]]
    lines = len(stand.site.host.lines)
    since = time.monotonic()
    site = stand.site
    site.elsewhere = 0
    with Gauge(site) as gauge, watched((site.port, site.front, site.wellknown)) as reach:
        wrong = _run(attack, stand.site, seconds, nice)
        result.lasted = time.monotonic() - since
        end = max(time.monotonic(), since + least)
        during = stand.callers.between(since, end)
        after = stand.quiet(quiet)
    if wrong is not None:
        result.failures.append(wrong)
    result.memory, result.disk, result.seconds = gauge.memory, gauge.disk, gauge.seconds
    result.calls = len(during.samples)
    _judge_reach(result, reach, site.elsewhere)
    _judge_time(result, before, {"during": during, "after": after}, floor)
    _judge_rest(result, stand, lines)
    return result


def _run(attack: Attack, site: Site, seconds: float, nice: int) -> str | None:
    """What an attack found, or how it broke."""
    found: list[str | None] = []

    def run() -> None:
        # Honest callers live on the same core, and are not to be starved on it: that would be no deed of the host.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), nice)
        try:
            attack.run(site, seconds)
        except AssertionError as failure:
            found.append(f"gave way: {str(failure)[:400] or repr(failure)}")
        except Exception as failure:
            found.append(f"the attack broke: {failure!r}"[:400])

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    seconds = max(seconds, attack.lasts) + OVERTIME
    thread.join(seconds)
    if thread.is_alive():
        where = traceback.extract_stack(sys._current_frames()[thread.ident or 0])[-6:]
        places = ", ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in where)
        return f"the attack did not end within {seconds:.0f} s: it stands at {places}"
    return found[0] if found else None


def _judge_reach(result: Result, reach: Reach, elsewhere: int = 0) -> None:
    """An attack of which nothing arrives is a failed run: whatever was measured, it was not that attack."""
    result.sent, result.reached = reach.sent + elsewhere, reach.reached + elsewhere
    if result.attack.connections:
        result.sent = result.reached = reach.connections
    if result.attack.who not in ("operator", "fault") and not result.reached:
        result.failures.append(f"none of its {result.sent} messages reached the host")


def _judge_time(result: Result, before: Window, windows: dict[str, Window], floor: float) -> None:
    worst = -1.0
    for name, window in windows.items():
        result.errors += [f"{name}, {error}" for error in window.errors]
        waited = max(0.0, window.p99("probe") - before.p99("probe"))
        for kind in TIMED:
            quiet, seen = before.p99(kind), window.p99(kind)
            allowed = result.attack.slower * max(quiet, floor) + waited
            if seen > allowed:
                result.slow.append(f"{name}, p99 of {kind} {seen * 1000:.0f} ms > {allowed * 1000:.0f} ms")
            if name == "during" and seen / allowed > worst:
                worst = seen / allowed
                result.quiet, result.during, result.allowed, result.kind = quiet, seen, allowed, kind


def _judge_rest(result: Result, stand: Stand, lines: int) -> None:
    attack, host = result.attack, stand.site.host
    if result.errors:
        result.failures.append(f"{len(result.errors)} honest calls failed: {'; '.join(result.errors[:3])}")
    for name, grown, bound in (("memory", result.memory, attack.memory), ("disk", result.disk, attack.disk)):
        if grown > bound:
            result.failures.append(f"{name} grew by {grown / 2**20:.1f} MiB > {bound / 2**20:.1f} MiB")
    if host.process.poll() is not None:
        result.failures.append(f"the host ended with status {host.process.returncode}")
    said = host.lines[lines:]
    traces = [place for place, line in enumerate(said) if "Traceback (most recent call last)" in line]
    if traces:
        # With the lines around the first one: the log is gone when somebody reads of it.
        first = "\n".join(said[max(0, traces[0] - 2) : traces[0] + 40])
        result.failures.append(f"{len(traces)} tracebacks in the log:\n{first}")


def judged(attack: Attack, template: Path, folder: Path, cores: Cores, *, seconds: float, quiet: float) -> Result:
    """On a host of its own; made again where only time was the trouble. The directories are left for a look."""
    for number in range(1, ATTEMPTS + 1):
        place = folder / f"{attack.name}-{number}"
        try:
            with standing(template, place, cores, attack.configure, honest=attack.honest) as stand:
                result = attempt(stand, attack, seconds=seconds, quiet=quiet)
        except (AssertionError, OSError, subprocess.TimeoutExpired) as failure:
            result = Result(attack, failures=[f"no measurement: {str(failure)[:400] or repr(failure)}"])
        result.attempts = number
        if result.held or result.failures:
            break
    return result
