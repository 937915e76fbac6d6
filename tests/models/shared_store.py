"""
An explicit-state model of two hosts with one store: lease, term, single use, idempotency, revocation, COMMIT in doubt.

The model takes every step of two processes, of the database and of the network in every order, with crashes between any
two steps. An action has the name of the function that it stands for. A rule is a text that :func:`explore` returns with
the actions that lead to its violation; :data:`MUTANTS` are changes of the design, and each must violate its rule.

Time is in two facts: whether a process still trusts its last confirmed beat (``fresh``), and whether its lease holds
(``lease``). A process stops trusting before its lease ends, because it measures from when it sent the beat.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

IDLE, CLAIM, HANDLER, RECORD = "idle", "claim", "handler", "record"
"""What a process does for a request."""

NONE, OPEN, SENT, DOUBT = "none", "open", "sent", "doubt"
"""What its transaction is: none, locked, COMMIT sent, or its outcome is not known."""

NEW, TAKEN, ANSWERED, REFUSED = "new", "taken", "answered", "refused"
"""What became of a request."""


class Process(NamedTuple):
    """One host."""

    alive: bool = True
    term: int = 0
    """0: it stands by."""

    fresh: bool = False
    last: int = 0
    """Number of the newest record that it knows: what its next record names as the one before."""

    stopped: bool = False
    running: bool = False
    used: bool = False
    """What its memory says: the agent is stopped, the keyed request runs here, the token was used."""

    request: int = -1
    phase: str = IDLE
    transaction: str = NONE


class World(NamedTuple):
    """All there is."""

    processes: tuple[Process, Process] = (Process(), Process())
    requests: tuple[tuple[str, str, int], ...] = ()
    """Kind, what became of it, and how often it was tried."""

    records: tuple[tuple[int, int, str], ...] = ()
    """Committed: term of the writer, number of the record before, and what it is of."""

    reservation: str = ""
    """Of the one idempotency key: ``reserved`` or ``answered``."""

    used: bool = False
    stopped: bool = False
    term: int = 0
    holder: int = -1
    lease: bool = False
    lock: int = -1
    """Which process has the row of the store locked."""

    pending: tuple[int, str] | None = None
    """A COMMIT that the server has and did not carry out yet: whose, and of what."""

    performed: int = 0
    """How often the handler of the keyed request or of the token ran."""

    answers: tuple[str, ...] = ()
    """What callers were told is recorded."""

    absent: tuple[str, ...] = ()
    """What callers were told is not recorded."""

    crashes: int = 1
    cuts: int = 1
    expiries: int = 1
    """How many of these may still happen."""

    broken: str = ""
    """The rule that the last step violated."""


Steps = Iterator[tuple[str, World]]


class Model:
    """
    The steps of a world.

    :param mutant: a name of :data:`MUTANTS`, which are joined by "and"; empty for the design.
    """

    def __init__(self, mutant: str = "") -> None:
        self._mutants = frozenset(mutant.split(" and "))

    def steps(self, world: World) -> Steps:
        """Yield every step, with the world after it."""
        for number, process in enumerate(world.processes):
            if process.alive:
                yield from self._lease(world, number, process)
                yield from self._work(world, number, process)
                if world.crashes:
                    yield f"crash {number}", self._crash(world, number)
            else:
                yield f"startService {number}", change(world, number, Process())
        yield from self._database(world)
        for place, (kind, state, tried) in enumerate(world.requests):
            if state == REFUSED and tried < 2 and kind != "revoke":
                yield f"client repeats {place}", request(world, place, NEW)

    # Who serves

    def _lease(self, world: World, number: int, process: Process) -> Steps:
        free = world.holder == -1 or not world.lease or "take without WHERE" in self._mutants
        if process.term == 0 and free and world.lock == -1 and world.term < 3:
            taken = world._replace(term=world.term + 1, holder=number, lease=True)
            seen = self._read(world, Process(term=taken.term, fresh=True, last=len(world.records)))
            yield f"ILease.take {number}", change(taken, number, seen)
        if process.term and process.fresh and process.phase == IDLE and world.holder == number and world.lock == -1:
            gone = world._replace(holder=-1, lease=False)
            yield f"ILease.give_up {number}", change(gone, number, Process(alive=False))
        if process.term and process.term == world.term and not process.fresh and world.lock == -1:
            kept = world._replace(holder=number, lease=True)
            yield f"ILease.keep {number}", change(kept, number, process._replace(fresh=True))
        if process.term and process.fresh and world.expiries:
            old = world._replace(expiries=world.expiries - 1)
            yield f"frozen or cut off {number}", change(old, number, process._replace(fresh=False))
        trusting = world.holder >= 0 and world.processes[world.holder].fresh
        trusting = trusting and world.processes[world.holder].term == world.term
        if number == world.holder and world.lease and not trusting:
            yield "lease ends", world._replace(lease=False)

    # What a process does for a request

    def _work(self, world: World, number: int, process: Process) -> Steps:
        if process.term == 0:
            return
        if process.phase == IDLE:
            for place, (kind, state, tried) in enumerate(world.requests):
                if state == NEW:
                    taken = request(world, place, TAKEN, tried + 1)
                    phase = CLAIM if kind in ("keyed", "token") else HANDLER
                    if "handler before claim" in self._mutants:
                        phase = HANDLER
                    yield (
                        f"dispatch {number} {kind}",
                        change(taken, number, process._replace(request=place, phase=phase)),
                    )
            return
        kind = world.requests[process.request][0]
        if process.phase == HANDLER:
            yield f"LeasedStoreGate {number}", self._handle(world, number, process, kind)
        elif process.transaction == NONE and world.lock == -1:
            yield f"GroupWriter.begin {number}", self._begin(world, number, process)
        elif process.transaction == OPEN:
            yield f"Group.seal {number}", self._seal(world, number, process, kind)
        elif process.transaction == DOUBT and (world.lock == -1 or "holds without the lock" in self._mutants):
            yield f"PostgresStore.holds {number}", self._ask(world, number, process)
        elif process.transaction == SENT and world.cuts:
            cut = world._replace(cuts=world.cuts - 1)
            yield f"connection lost {number}", change(cut, number, process._replace(transaction=DOUBT))

    def _handle(self, world: World, number: int, process: Process, kind: str) -> World:
        if not process.fresh and "gate without freshness" not in self._mutants:
            return self._refuse(world, number, process)
        if process.term != world.term:
            world = world._replace(broken=LEADS)
        if kind in ("keyed", "token"):
            world = world._replace(performed=world.performed + 1)
            if world.performed > 1:
                world = world._replace(broken=TWICE)
        phase = CLAIM if "handler before claim" in self._mutants and kind in ("keyed", "token") else RECORD
        return change(world, number, process._replace(phase=phase))

    def _read(self, world: World, process: Process) -> Process:
        """Return a process that has read what the store says."""
        if "begin without reading" not in self._mutants:
            process = process._replace(last=len(world.records))
        if "seal by memory" not in self._mutants:
            process = process._replace(stopped=world.stopped)
        if "single use by memory" not in self._mutants:
            process = process._replace(used=world.used)
        return process

    def _begin(self, world: World, number: int, process: Process) -> World:
        if process.term != world.term and "commit without the term" not in self._mutants:
            # Superseded: it ends, and what it did for its caller is not acknowledged.
            return self._crash(world._replace(crashes=world.crashes + 1), number)
        return change(world._replace(lock=number), number, self._read(world, process)._replace(transaction=OPEN))

    def _seal(self, world: World, number: int, process: Process, kind: str) -> World:
        """Decide under the lock, and send COMMIT; or roll back and refuse."""
        if process.phase == CLAIM:
            if kind == "keyed" and world.reservation:
                again = world.reservation == "reserved" and "in doubt runs again" in self._mutants
                if not again and "handler before claim" not in self._mutants:
                    released = world._replace(lock=-1)
                    if world.reservation == "answered":
                        first = next(what for _, _, what in world.records if what.startswith("keyed"))
                        return self._answer(released, number, process, first)
                    return self._refuse(released, number, process)
            if kind == "token" and process.used:
                return self._refuse(world._replace(lock=-1), number, process)
            what = f"claim {kind}"
        else:
            if kind != "revoke" and process.stopped:
                return self._refuse(world._replace(lock=-1), number, process)
            what = content_of(world, process)
            if "acknowledged before COMMIT" in self._mutants:
                return self._answer(world._replace(pending=(number, what)), number, process, what)
        return change(world._replace(pending=(number, what)), number, process._replace(transaction=SENT))

    def _ask(self, world: World, number: int, process: Process) -> World:
        if process.phase == CLAIM:
            # A claim has no record to ask for: it counts as not made, and whether it was is decided by the next one.
            return self._refuse(world, number, process)
        what = content_of(world, process)
        if any(record[2] == what for record in world.records):
            return self._acknowledge(world, number, process, what)
        return self._refuse(world._replace(absent=(*world.absent, what)), number, process)

    def _acknowledge(self, world: World, number: int, process: Process, what: str) -> World:
        stopped = process.stopped or what.startswith("revoke")
        seen = process._replace(last=len(world.records), stopped=stopped, running=False)
        return self._answer(world, number, seen, what)

    def _answer(self, world: World, number: int, process: Process, what: str) -> World:
        world = request(world, process.request, ANSWERED)._replace(answers=(*world.answers, what))
        return change(world, number, process._replace(request=-1, phase=IDLE, transaction=NONE))

    def _refuse(self, world: World, number: int, process: Process) -> World:
        world = request(world, process.request, REFUSED)
        return change(world, number, process._replace(request=-1, phase=IDLE, transaction=NONE, running=False))

    def _crash(self, world: World, number: int) -> World:
        process = world.processes[number]
        if process.request >= 0:
            world = request(world, process.request, REFUSED)
        if world.lock == number and world.pending is None:
            world = world._replace(lock=-1)
        return change(world._replace(crashes=world.crashes - 1), number, Process(alive=False))

    # The database

    def _database(self, world: World) -> Steps:
        if world.pending is None:
            return
        number, what = world.pending
        yield "server commits", self._apply(world, number, what)
        process = world.processes[number]
        if process.transaction != SENT:
            # The session ended before its COMMIT was carried out.
            yield "server rolls back", world._replace(pending=None, lock=-1)

    def _apply(self, world: World, number: int, what: str) -> World:
        process = world.processes[number]
        world = world._replace(pending=None, lock=-1)
        waits = process.alive and process.transaction == SENT
        if what.startswith("claim "):
            kind = what.removeprefix("claim ")
            world = world._replace(reservation="reserved") if kind == "keyed" else world._replace(used=True)
            if waits:
                phase = RECORD if "handler before claim" in self._mutants else HANDLER
                claimed = process._replace(phase=phase, transaction=NONE, running=kind == "keyed", used=True)
                world = change(world, number, claimed)
            return world
        before = process.last if waits else len(world.records)
        term = process.term if waits else world.term
        world = self._append(world, (term, before, what))
        return self._acknowledge(world, number, process, what) if waits else world

    def _append(self, world: World, record: tuple[int, int, str]) -> World:
        term, before, what = record
        broken = world.broken
        if any(other[1] == before for other in world.records):
            broken = "a record has two successors"
        if world.records and world.records[-1][0] > term:
            broken = "a host commits after another one has taken over"
        if world.stopped and not what.startswith("revoke"):
            broken = "a record of a stopped agent after the event that stopped it"
        if what in world.absent:
            broken = "a caller was told that a record is not stored, and then it is"
        stopped = world.stopped or what.startswith("revoke")
        reservation = "answered" if what.startswith("keyed") else world.reservation
        records = (*world.records, record)
        return world._replace(records=records, stopped=stopped, reservation=reservation, broken=broken)


def change(world: World, number: int, process: Process) -> World:
    """Return a world with another state of a process."""
    others = list(world.processes)
    others[number] = process
    return world._replace(processes=(others[0], others[1]))


def request(world: World, place: int, state: str, tried: int | None = None) -> World:
    """Return a world with another state of a request."""
    kind, _, before = world.requests[place]
    made = kind, state, before if tried is None else tried
    return world._replace(requests=(*world.requests[:place], made, *world.requests[place + 1 :]))


def content_of(world: World, process: Process) -> str:
    """Return what the record of a process is of: the request, and which try."""
    kind, _, tried = world.requests[process.request]
    return f"{kind} {process.request} {tried}"


def find_fault(world: World) -> str:
    """Return the rule that a world violates; empty if it violates none."""
    if world.broken:
        return world.broken
    stored = {what for _, _, what in world.records}
    coming = () if world.pending is None else (world.pending[1],)
    if any(answer not in stored and answer not in coming for answer in world.answers):
        return "an acknowledged record is not stored"
    return ""


KEYED, TOKEN, REVOKED = ("keyed", "keyed"), ("token", "token"), ("call", "revoke")
"""The requests of each run: a keyed call that is sent twice, a token that is used twice, a call and a revocation."""

LEADS = "a handler begins where another host leads"
TWICE = "a keyed or single-use call is carried out twice"

MUTANTS = {
    "take without WHERE": (REVOKED, LEADS),
    "gate without freshness": (REVOKED, LEADS),
    "commit without the term": (REVOKED, "a host commits after another one has taken over"),
    "commit without the term and begin without reading": (REVOKED, "a record has two successors"),
    "holds without the lock": (REVOKED, "a caller was told that a record is not stored, and then it is"),
    "acknowledged before COMMIT": (REVOKED, "an acknowledged record is not stored"),
    "in doubt runs again": (KEYED, TWICE),
    "handler before claim": (KEYED, TWICE),
    "single use by memory": (TOKEN, TWICE),
    "seal by memory": (REVOKED, "a record of a stopped agent after the event that stopped it"),
}
"""Changes of the design, each with requests with which it violates a rule, and the rule."""


def explore(kinds: tuple[str, ...], mutant: str = "", until: str = "") -> tuple[int, dict[str, list[str]]]:
    """
    Visit every world that can be reached, those first that take the fewest steps.

    :param kinds: the requests.
    :param until: a rule; its first violation ends the search.
    :return: how many worlds there are, and for each violated rule the shortest way to it.
    """
    model = Model(mutant)
    begin = World(requests=tuple((kind, NEW, 0) for kind in kinds))
    came: dict[World, tuple[World, str] | None] = {begin: None}
    waiting = deque([begin])
    found: dict[str, list[str]] = {}
    while waiting:
        world = waiting.popleft()
        if fault := find_fault(world):
            found.setdefault(fault, way_to(world, came))
            if fault == until:
                break
            continue
        for name, after in model.steps(world):
            if after not in came:
                came[after] = world, name
                waiting.append(after)
    return len(came), found


def way_to(world: World, came: dict[World, tuple[World, str] | None]) -> list[str]:
    """Return the actions that lead to a world."""
    way = []
    while (step := came[world]) is not None:
        world, name = step
        way.append(name)
    return way[::-1]
