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
"""What its transaction is: none, begun, COMMIT sent, or its outcome is not known."""

NEW, TAKEN, ANSWERED, REFUSED = "new", "taken", "answered", "refused"
"""What became of a request."""


class Process(NamedTuple):
    """One host."""

    alive: bool = True
    term: int = 0  # 0: it stands by
    fresh: bool = False
    last: int = 0  # number of the newest record that it knows, which its next record names as the one before
    current: bool = False  # whether the row of the store is as it knows it

    # What its memory says: the agent is stopped, the keyed request runs here, the token was used.
    stopped: bool = False
    running: bool = False
    used: bool = False
    request: int = -1
    phase: str = IDLE
    transaction: str = NONE


class Message(NamedTuple):
    """
    A COMMIT that was sent, and that the server did not carry out yet.

    Its transaction has the lock (``locked``), or begins with it and fails where it is not ``current``.
    """

    sender: int
    what: str
    term: int
    last: int
    locked: bool
    current: bool


class World(NamedTuple):
    """All there is."""

    processes: tuple[Process, Process] = (Process(), Process())
    # Of each its kind, what became of it, and how often it was tried.
    requests: tuple[tuple[str, str, int], ...] = ()
    # Of each the term of the writer, the number of the record before, and what it is of.
    records: tuple[tuple[int, int, str], ...] = ()
    reservation: str = ""  # what claimed the one idempotency key, or "answered"
    used: str = ""  # what used the token
    stopped: bool = False
    term: int = 0
    holder: int = -1
    lease: bool = False
    lock: int = -1  # which process has the row of the store locked
    messages: tuple[Message, ...] = ()
    performed: int = 0  # how often the handler of the keyed request or of the token ran

    answers: tuple[str, ...] = ()  # what callers were told is recorded
    absent: tuple[str, ...] = ()  # what they were told is not
    crashes: int = 1  # how many of these may still happen
    cuts: int = 1
    expiries: int = 1
    broken: str = ""  # the rule that the last step violated


Steps = Iterator[tuple[str, World]]


class Model:
    """The steps of a world, by the design or a mutant: names of :data:`MUTANTS` that are joined by "and"."""

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

    def _lease(self, world: World, number: int, process: Process) -> Steps:
        free = world.holder == -1 or not world.lease or "take without WHERE" in self._mutants
        if process.term == 0 and free and world.lock == -1 and world.term < 3:
            taken = world._replace(term=world.term + 1, holder=number, lease=True)
            if "commit without the term" not in self._mutants:
                taken = make_stale(taken)
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

    def _work(self, world: World, number: int, process: Process) -> Steps:
        if process.term == 0:
            return
        if process.phase == IDLE:
            for place, (kind, state, tried) in enumerate(world.requests):
                if state == NEW:
                    claims = kind in ("keyed", "token") and "handler before claim" not in self._mutants
                    begun = process._replace(request=place, phase=CLAIM if claims else HANDLER)
                    yield f"dispatch {number} {kind}", change(request(world, place, TAKEN, tried + 1), number, begun)
            return
        kind = world.requests[process.request][0]
        if process.phase == HANDLER:
            yield f"LeasedStoreGate {number}", self._handle(world, number, process, kind)
        elif process.transaction == NONE:
            if process.phase == RECORD and process.current:
                yield f"Transactions.begin {number}", change(world, number, process._replace(transaction=OPEN))
            if world.lock == -1:
                yield f"GroupWriter.begin {number}", self._begin(world, number, process)
        elif process.transaction == OPEN:
            yield f"Group.seal {number}", self._seal(world, number, process, kind)
        elif process.transaction == DOUBT and (world.lock == -1 or "holds without the lock" in self._mutants):
            yield f"PostgresStore.holds {number}", self._ask(world, number, process)
            if process.current and process.phase == RECORD:
                again = self._apply(world, make_message(world, number, process))
                acknowledged = self._acknowledge(again, number, process, content_of(world, process))
                yield f"Transactions.revive {number}", acknowledged
        elif process.transaction == SENT and world.cuts:
            cut = world._replace(cuts=world.cuts - 1)
            yield f"connection lost {number}", change(cut, number, process._replace(transaction=DOUBT))

    def _handle(self, world: World, number: int, process: Process, kind: str) -> World:
        if not process.fresh and "gate without freshness" not in self._mutants:
            return self._refuse(world, number, process)
        if process.term != world.term:
            world = world._replace(broken=LEADS)
        if kind in ("keyed", "token"):
            broken = TWICE if world.performed else world.broken
            world = world._replace(performed=world.performed + 1, broken=broken)
        phase = CLAIM if "handler before claim" in self._mutants and kind in ("keyed", "token") else RECORD
        return change(world, number, process._replace(phase=phase))

    def _read(self, world: World, process: Process) -> Process:
        """Return a process that has read what the store says."""
        process = process._replace(current=True)
        if "begin without reading" not in self._mutants:
            process = process._replace(last=len(world.records))
        if "seal by memory" not in self._mutants:
            process = process._replace(stopped=world.stopped)
        if "single use by memory" not in self._mutants:
            process = process._replace(used=bool(world.used))
        return process

    def _begin(self, world: World, number: int, process: Process) -> World:
        if process.term != world.term and "commit without the term" not in self._mutants:
            # Superseded: it ends, and what it did for its caller is not acknowledged.
            return self._crash(world._replace(crashes=world.crashes + 1), number)
        return change(world._replace(lock=number), number, self._read(world, process)._replace(transaction=OPEN))

    def _seal(self, world: World, number: int, process: Process, kind: str) -> World:
        """Decide by what the store says or memory knows, and send COMMIT; or roll back and refuse."""
        released = world._replace(lock=-1) if world.lock == number else world
        if process.phase == CLAIM:
            again = world.reservation != "answered" and "in doubt runs again" in self._mutants
            if kind == "keyed" and world.reservation and not again and "handler before claim" not in self._mutants:
                if world.reservation == "answered":
                    first = next(what for _, _, what in world.records if what.startswith("keyed"))
                    return self._answer(released, number, process, first)
                return self._refuse(released, number, process)
        if (kind == "token" and process.used) if process.phase == CLAIM else (kind != "revoke" and process.stopped):
            return self._refuse(released, number, process)
        world = world._replace(messages=(*world.messages, make_message(world, number, process)))
        if process.phase == RECORD and "acknowledged before COMMIT" in self._mutants:
            return self._answer(world, number, process, content_of(world, process))
        return change(world, number, process._replace(transaction=SENT))

    def _ask(self, world: World, number: int, process: Process) -> World:
        process, what = process._replace(current=False), content_of(world, process)
        if process.phase == CLAIM:
            another = "another's claim counts" in self._mutants and world.reservation
            if another or what in (world.reservation, world.used):
                return change(world, number, self._claimed(process, what))
            return self._refuse(make_stale(world), number, process)
        if any(record[2] == what for record in world.records):
            return self._acknowledge(world, number, process, what)
        if "holds without a change" not in self._mutants:
            world = make_stale(world)
        return self._refuse(world._replace(absent=(*world.absent, what)), number, process)

    def _acknowledge(self, world: World, number: int, process: Process, what: str) -> World:
        seen = process._replace(last=len(world.records), running=False)
        return self._answer(world, number, seen._replace(stopped=seen.stopped or what.startswith("revoke")), what)

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
        if world.lock == number and not any(each.locked for each in world.messages):
            world = world._replace(lock=-1)
        return change(world._replace(crashes=world.crashes - 1), number, Process(alive=False))

    def _database(self, world: World) -> Steps:
        for message in world.messages:
            process = world.processes[message.sender]
            gone = world._replace(messages=tuple(each for each in world.messages if each is not message))
            if message.locked:
                gone = gone._replace(lock=-1)
            right = message.current or "message without a condition" in self._mutants
            if message.locked or (right and world.lock == -1):
                yield "server commits", self._apply(gone, message)
            elif world.lock == -1 and is_awaited(world, message):
                yield "server refuses", self._refuse(gone, message.sender, process._replace(current=False))
            if not is_awaited(world, message):
                # The session ended before its COMMIT was carried out.
                yield "server rolls back", gone

    def _apply(self, world: World, message: Message) -> World:
        number, what = message.sender, message.what
        # It knows what it committed; the other one does not.
        process, awaited = world.processes[number], is_awaited(world, message)
        world = make_stale(world)
        if what.startswith("claim "):
            what = what.removeprefix("claim ")
            world = world._replace(**{"reservation" if what.startswith("keyed") else "used": what})
            return change(world, number, self._claimed(process, what)) if awaited else world
        world = self._append(world, (message.term, message.last, what))
        return self._acknowledge(world, number, process, what) if awaited else world

    def _claimed(self, process: Process, what: str) -> Process:
        """Return a process whose claim is stored."""
        phase = RECORD if "handler before claim" in self._mutants else HANDLER
        return process._replace(phase=phase, transaction=NONE, running=what.startswith("keyed"), used=True)

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


def make_message(world: World, number: int, process: Process) -> Message:
    """Return the COMMIT of a process."""
    what = "claim " * (process.phase == CLAIM) + content_of(world, process)
    return Message(number, what, process.term, process.last, world.lock == number, process.current)


def is_awaited(world: World, message: Message) -> bool:
    """Return whether its sender waits for the answer to a message."""
    process = world.processes[message.sender]
    return process.transaction == SENT and message.what == make_message(world, message.sender, process).what


def mirror(world: World) -> World:
    """Return a world in which the hosts have exchanged their numbers, which mean nothing."""
    one, other = world.processes
    holder, lock = (-1 if each < 0 else 1 - each for each in (world.holder, world.lock))
    sent = tuple(each._replace(sender=1 - each.sender) for each in world.messages)
    return world._replace(processes=(other, one), holder=holder, lock=lock, messages=sent)


def make_stale(world: World) -> World:
    """Return a world whose row of the store is another one than processes know and messages name."""
    one, other = (process._replace(current=False) for process in world.processes)
    sent = tuple(each._replace(current=False) for each in world.messages)
    return world._replace(processes=(one, other), messages=sent)


def change(world: World, number: int, process: Process) -> World:
    """Return a world with another state of a process."""
    one, other = world.processes
    return world._replace(processes=(one, process) if number else (process, other))


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
    there = {what for _, _, what in world.records} | {message.what for message in world.messages}
    return "" if there.issuperset(world.answers) else "an acknowledged record is not stored"


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
    "holds without a change": (REVOKED, "a caller was told that a record is not stored, and then it is"),
    "message without a condition": (REVOKED, "a record has two successors"),
    "acknowledged before COMMIT": (REVOKED, "an acknowledged record is not stored"),
    "in doubt runs again": (KEYED, TWICE),
    "another's claim counts and gate without freshness": (KEYED, TWICE),
    "handler before claim": (KEYED, TWICE),
    "single use by memory": (TOKEN, TWICE),
    "seal by memory": (REVOKED, "a record of a stopped agent after the event that stopped it"),
}
"""Changes of the design, each with requests with which it violates a rule, and the rule."""


def explore(kinds: tuple[str, ...], mutant: str = "", until: str = "") -> tuple[int, dict[str, list[str]]]:
    """
    Visit every world that requests of these kinds lead to, by the fewest steps; of two mirrored ones only one.

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
            if after not in came and mirror(after) not in came:
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
