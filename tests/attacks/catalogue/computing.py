"""Computations that cost: the most expensive inputs of the standard methods, on many connections at a time."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from agtphost.compute import pool
from tests.attacks.attack import MIB, OVERTIME, Attack, Target
from tests.attacks.site import amend
from tests.attacks.strikes import WHOLE, addresses, answered, fewer, opened
from tests.methods.standard import costly
from tests.programmes import length
from tests.system.raw_link import RawLink, Truncated, client_context, request

CONNECTIONS = 16
LOOK = 0.02
"""Seconds between two looks at the memory of workers."""

WORKERS = 2 * (128 + 32) * MIB
"""Octets that the worker processes may have: each its own, and the address space of one computation."""

STATUSES = (200, 202, 400, 403, 404, 405, 408, 409, 422, 429, 503)
AGENTS = ("demo", "other")
PLAYED = (*costly.COMPUTED, "SEARCH", "SCAN", "SIGN")
"""Methods whose costly inputs are sent together."""

SERVED = ("BATCH", "FIND", "IMPORT", "LOG", "QUOTE", "REPORT", "SCAN", "SEARCH", "SIGN")
"""Methods that the host's own process carries out; each has an attack by itself."""

SUM = {"expression": {"op": "add", "args": [1, 2]}, "inputs": {}}
COLLECTION = """
[[methods.collection]]
name = "goods"
read = []
write = []
max_items = 30_000
"""


def with_methods(folder: Path) -> None:
    """Every standard method, and a collection."""
    amend(folder, "methods", 'standard = "*"')
    file = folder / "host.toml"
    file.write_text(file.read_text() + COLLECTION)


def children_of(pid: int) -> list[int]:
    """The processes that a process has started."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):  # It ended meanwhile.
            found += map(int, (task / "children").read_text().split())
    return found


def workers_of(pid: int) -> list[int]:
    """The worker processes of a host."""
    found = []
    for child in children_of(pid):
        with suppress(OSError):
            if b"-m\0agtphost.compute.worker\0" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(child)
    return found


def computations_of(pid: int) -> list[int]:
    """The processes of computations that run."""
    return [child for worker in workers_of(pid) for child in children_of(worker)]


def proportional(pid: int) -> int:
    """Octets of a process in memory; of what several share each has its part."""
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("Pss:")).split()[1])
    return 0


ANSWERED = pool.LONGEST + 30.0
"""Seconds that a connection waits for its answer: a computation that gets no processor is refused before, by 408."""

PATIENCE = ANSWERED + 10.0
"""Seconds after its time that the attack waits for the answers it needs."""

assert PATIENCE < OVERTIME


class Play:
    """
    Each connection sends the next message as soon as the one before is answered; all leave when the time is over.

    :param answers: answers without which the time is not over.
    """

    def __init__(self, messages: Sequence[bytes], connections: int, agents: Sequence[str], answers: int) -> None:
        self._messages, self._connections, self._agents, self._answers = messages, connections, agents, answers
        self._wrong: list[str] = []
        self._answered: list[int] = []
        self._links: dict[int, RawLink] = {}
        self._over = threading.Event()

    def run(self, target: Target, seconds: float) -> None:
        """Play."""
        contexts = [client_context(target, agent=name) for name in self._agents]
        threads = [
            threading.Thread(target=self._play, args=(target, contexts[number % len(contexts)], number, source))
            for number, source in zip(range(self._connections), addresses(), strict=False)
        ]
        end, late, most = time.monotonic() + seconds, time.monotonic() + seconds + PATIENCE, 0
        for thread in threads:
            thread.start()
        while time.monotonic() < end or (len(self._answered) < self._answers and time.monotonic() < late):
            every = [*workers_of(target.pid), *computations_of(target.pid)]
            most = max(most, sum(map(proportional, every)))
            if self._over.wait(LOOK if seconds >= WHOLE else 5 * LOOK):
                break  # A wrong answer.
        self._over.set()
        for link in tuple(self._links.values()):
            with suppress(OSError):
                # Of TCP itself: a thread that reads notices it.
                socket.socket.shutdown(link.tls, socket.SHUT_RDWR)
        for thread in threads:
            thread.join()
        assert not self._wrong, self._wrong[0]
        assert len(self._answered) >= self._answers, "nobody was answered"
        assert most <= WORKERS, f"the workers had {most / MIB:.0f} MiB"

    def _play(self, target: Target, context: Any, number: int, source: str) -> None:
        turn = number
        while not self._over.is_set():
            link = self._links.get(number) or opened(target, context, source, ANSWERED)
            if link is None:
                continue
            self._links[number] = link
            # Seven has no divisor in common with the number of messages: each connection sends all of them.
            message = self._messages[turn % len(self._messages)]
            turn += 7
            try:
                link.send(message)
                answer = link.answer()
            except (OSError, Truncated):
                answer = None
            if answer is None:
                link.close()
                del self._links[number]
            elif not self._over.is_set():
                self._answered.append(answer.status)
                if answer.status not in STATUSES:
                    self._wrong.append(f"{message[:60]!r} {answer.status} {answer.body[:300]!r}")
                    self._over.set()


ITEMS = length(1_000, 10_000)
"""
Items that are searched; the host takes 500 in one IMPORT.

Sixteen searches of 10,000 take the host half a minute of processor time, however soon the attack is over.
"""


def _fill(target: Target) -> None:
    """Put items into the collection, unless an attack on the same host has filled it."""
    context = client_context(target, agent=AGENTS[0])
    every = _message("SEARCH", {"query": {"n": {"gte": 0}}, "scope": "goods", "limit": 1})
    if json.loads(answered(target, context, every).body)["result"]["total"] >= ITEMS:
        return
    for first in range(0, ITEMS, 500):
        rows = ({"n": n, "name": f"x{n}", "t": "y" * 200} for n in range(first, first + 500))
        given = {"source": "\n".join(map(json.dumps, rows)), "target": "goods", "format": "jsonl"}
        answer = answered(target, context, _message("IMPORT", given))
        assert answer.status == 200, (answer.status, answer.body[:300])


def _searches() -> Sequence[bytes]:
    """The costliest known searches, and two that are worked out to the end and find everything."""
    found = [_message(method, given) for method in ("SEARCH", "SCAN") for _, _, given in costly.inputs([method])]
    some = " || ".join(f"n == `{-n}`" for n in range(1, 20))
    every = {"query": {"n": {"gte": 0}}, "scope": "goods", "limit": 500, "sort": ["-n", "name"] * 4}
    return [*found, _message("SEARCH", {"query": some, "scope": "goods"}), _message("SEARCH", every)]


def _sorted_searches() -> Sequence[bytes]:
    """Searches that find every item: sorted by eight members, most of them missing, and from the last text on."""
    members = ["-n", "name", "-t", *(f"m{number}" for number in range(5))]
    every = {"query": {"n": {"gte": 0}}, "scope": "goods"}
    return [
        _message("SEARCH", {**every, "limit": 500, "sort": members}),
        _message("SEARCH", {**every, "limit": 5, "sort": ["-t", "-name"]}),
    ]


def _message(method: str, given: Mapping[str, Any], path: str = "/") -> bytes:
    return request(method, path, given)


def _attack(
    name: str,
    says: str,
    inputs: Callable[[], Sequence[bytes]],
    *,
    connections: int = CONNECTIONS,
    agents: Sequence[str] = AGENTS,
    answers: int = 1,
    memory: int = 40 * MIB,
    slower: float = 2.0,
    prepare: Callable[[Target], None] | None = None,
    brief: Callable[[], Sequence[bytes]] | None = None,
) -> Attack:
    """Return an attack; ``brief`` makes the inputs of one that lasts a moment, where they are others."""

    def run(target: Target, seconds: float) -> None:
        given = inputs() if brief is None or seconds >= WHOLE else brief()
        Play(given, fewer(connections, seconds), agents, answers).run(target, seconds)

    return Attack(
        name=name,
        who="agent",
        says=says,
        run=run,
        configure=with_methods,
        prepare=prepare,
        memory=memory,
        slower=slower,
    )


def _expression_on_few_lines() -> Sequence[bytes]:
    """For an attack that lasts a moment: a computation that has begun is worked out for seconds."""
    given = costly.COSTLY["FILTER"]["JMESPath of thirty parts"]()
    return [_message("FILTER", {**given, "data": costly.lines(60_000, n=1, text="x")})]


def _one(method: str, name: str) -> Callable[[], Sequence[bytes]]:
    return lambda: [_message(method, costly.COSTLY[method][name]())]


def _all(method: str) -> Callable[[], Sequence[bytes]]:
    return lambda: [_message(method, given) for _, _, given in costly.inputs([method])]


ATTACKS = (
    _attack(
        "table-as-json",
        "489 kB of CSV as JSON, on 16 connections: one at a time for each agent, in another process.",
        _one("TRANSFORM", "a table"),
    ),
    _attack(
        "table-of-long-names",
        "489 kB of CSV whose names come to 100 MB as JSON, on 16 connections: 422 before the result is made.",
        _one("TRANSFORM", "a table of long names"),
    ),
    _attack(
        "expressions-of-one",
        "JMESPath that takes as many steps as it may, on 4 connections of one agent: others do not wait for it.",
        _one("FILTER", "JMESPath of thirty parts"),
        connections=4,
        agents=("demo",),
        brief=_expression_on_few_lines,
    ),
    _attack(
        "searches-of-one",
        "SEARCH and SCAN of 10,000 items by the longest conditions, on 4 connections of one agent: the same.",
        _searches,
        connections=4,
        agents=("demo",),
        prepare=_fill,
    ),
    _attack(
        "sorted-searches",
        "SEARCH that finds 10,000 items and sorts them by as many members as it may, on 16 connections: the same.",
        _sorted_searches,
        prepare=_fill,
    ),
    _attack(
        "computations-abandoned",
        "Criteria that take half a minute, on 16 connections that do not wait for the answer: ended after 5 seconds.",
        # The short one shows that the messages arrive.
        lambda: [_message("EVALUATE", costly.COSTLY["EVALUATE"]["conditions"]()), _message("CALCULATE", SUM)],
    ),
    _attack(
        "costly-methods",
        "The most expensive known inputs of the methods on data and of searches, all of them on 16 connections.",
        lambda: [_message(method, given) for method, _, given in costly.inputs(PLAYED)],
    ),
    _attack(
        "dense-bodies",
        "15,000 small objects in each body, on 16 connections: one body is read at a time.",
        lambda: [_message("ECHO", {"text": [{"a": 1}] * 15_000}, "/text")],
    ),
    *(
        _attack(
            f"costly-method-{method.lower()}",
            f"The most expensive known inputs of {method}, on 16 connections.",
            _all(method),
            # Others become durable after its 500 rows, which are one transaction.
            slower=3.0 if method == "IMPORT" else 2.0,
        )
        for method in SERVED
    ),
)
