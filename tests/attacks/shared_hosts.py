"""
The hosts of the programme in the suite: attacks for which a host is the same are made on it, one after the other.

What is wrong with an answer, with memory, with disk or with a call of an honest caller fails here as it does in
``python -m tests.attacks``. Of time, on a machine that runs other tests meanwhile, only a host that stands still does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from tests.attacks.attack import Attack
from tests.attacks.catalogue import (
    attacks,
    computing,
    crowds,
    doors,
    earlier,
    headers,
    held,
    kept_verdicts,
    parsers,
    people,
    quic,
    schemas,
    unread,
    upstreams,
    ways,
)
from tests.attacks.cores import cores
from tests.attacks.runner import NICE, Result, Stand, attempt, standing
from tests.attacks.site import made
from tests.programmes import CHOSEN, length

SECONDS, QUIET, LEAST = length((0.15, 0.1, 0.2), (5.0, 2.0, 5.0))
SHARE = length(0.1, 1.0)
"""Of the honest calls: fifteen a second are enough to notice that none is answered."""

NICENESS = length(0, NICE)
SLOWER, FLOOR = 10.0, length(2.0, 0.5)
"""
Twenty seconds in which honest callers are not answered, on a machine that other tests keep busy; five at full length.
"""

UNREACHED = "messages reached the host"

ATTACKS = attacks()

Configure = Callable[[Path], None]


HOSTS: dict[str, tuple[Configure, ...]] = {
    "as it is made": (),
    "with more to call": (
        parsers.asking_for_yaml,
        schemas.endpoints,
        unread.with_large_answers,
        unread.with_streams,
        upstreams.beside,
        doors.with_doors,
        people.with_people,
        quic.with_quic,
    ),
    "with the standard methods": (computing.with_methods,),
    "with a server that does as it is told": (upstreams.shared, earlier.with_bindings, headers.with_collections),
    "with two providers": (ways.with_ways,),
    "filled by one": (held.needs_approval, crowds.few_keys, held.few_keys, kept_verdicts.with_surfaces),
    "filled by many": (crowds.crowd,),
}
"""The hosts of the shortened run, and how each is configured."""

_SPENDING = "tests/dispatch/test_spending_table.py::test_what_is_made_and_stored_is_charged"
_SHARES = "tests/methods/standard/test_shares.py"

IN_MEMORY = {
    "many-calls-in-one": _SPENDING,
    "much-stored-for-one": _SPENDING,
    "filled-collection": f"{_SHARES}::test_one_agent_has_half_and_the_next_one_half_of_the_rest",
    "gifts-to-one": f"{_SHARES}::test_what_others_hand_over_leaves_an_agent_room",
    "held-queue": f"{_SHARES}::test_one_agent_has_half_of_a_queue_in_its_hands",
}
"""Attacks without a shortened form, and the test of the suite that makes each on a host in memory."""

COSTLY = frozenset(
    {
        "a2a-slow-heads",
        "altered-state",
        "authority-of-another-zone",
        "card-by-other-ways",
        "card-of-a-guarded-provider",
        "changed-tables",
        "changed-tool",
        "clock-jump",
        "clock-jump-while-off",
        "costly-method-batch",
        "costly-method-import",
        "costly-method-scan",
        "costly-method-search",
        "costly-methods",
        "crowded-contracts",
        "crowded-delegated-tasks",
        "crowded-hops",
        "crowded-inboxes",
        "crowded-keys",
        "crowded-sessions",
        "disk-below-floor",
        "disk-full-while-idle",
        "empty-records",
        "endless-answer",
        "expressions-of-one",
        "filled-contracts",
        "filled-delegated-tasks",
        "filled-hops",
        "flood-of-notifications",
        "garbage-flood",
        "half-handshakes",
        "idle-crowd",
        "kept-verdicts",
        "random-agent-ids",
        "rollback",
        "searches-of-one",
        "sessions-of-others",
        "slow-bodies",
        "table-as-json",
        "table-of-long-names",
    }
)
"""Attacks that take more than half a second of processor time even in their shortened form: release tests."""

LAST = ("crowded-keys", "revoked-meanwhile")
"""After which another attack on the same host would find nothing to fill, or no caller."""


ONE_MODULE = ("as it is made", "with more to call")
"""Hosts whose attacks are the tests of one module; those of the others are in another, for another worker."""


def sharing(attack: Attack) -> str:
    """The name of a host: attacks for which it is the same are made on it, one after the other."""
    if CHOSEN.whole:
        return f"{getattr(attack.configure, '__qualname__', '')} {attack.name if attack.alone else ''}"
    return shared_host(attack)


def shared_host(attack: Attack) -> str:
    """Return the name of the host of the shortened run, one of :data:`HOSTS`."""
    if attack.name in IN_MEMORY:
        return attack.name
    if attack.alone and attack.configure is not crowds.crowd:
        return "filled by one"
    if attack.alone:
        return "filled by many"
    return next(name for name, configured in HOSTS.items() if not attack.configure or attack.configure in configured)


def configuring(attack: Attack) -> Configure:
    """What is done to the host of an attack before it starts."""
    own = () if attack.configure is None else (attack.configure,)
    parts = own if CHOSEN.whole else HOSTS[sharing(attack)]

    def configure(folder: Path) -> None:
        for part in parts:
            part(folder)

    return configure


class Hosts:
    """One host at a time: of one name, or a new one where an attack has ended it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._template = made(folder)
        self._stand: Stand | None = None
        self._of = ""
        self.open = ExitStack()

    def attacked(self, attack: Attack) -> Result:
        stand = self._stand
        if stand is None or self._of != sharing(attack) or stand.site.host.process.poll() is not None:
            self.open.close()
            place = self._folder / attack.name
            configure = configuring(attack)
            beside = standing(self._template, place, cores(), configure, honest=attack.honest, share=SHARE)
            stand = self.open.enter_context(beside)
            self._stand, self._of = stand, sharing(attack)
        return self._attempt(stand, attack)

    @staticmethod
    def _attempt(stand: Stand, attack: Attack) -> Result:
        """Once more, for longer, where a busy machine left an attack no time to reach the host at all."""
        lenient = replace(attack, slower=max(attack.slower, SLOWER))
        for seconds in (SECONDS, 5 * SECONDS, 25 * SECONDS):
            result = attempt(stand, lenient, seconds=seconds, quiet=QUIET, floor=FLOOR, least=LEAST, nice=NICENESS)
            if not any(UNREACHED in failure for failure in result.failures):
                break
        return result


SHORT = sorted(
    (attack for attack in ATTACKS if not attack.lasts and (CHOSEN.whole or attack.name not in IN_MEMORY)),
    key=lambda attack: (sharing(attack), attack.name in LAST),
)
"""The attacks of this run."""


FIRST = [attack for attack in SHORT if shared_host(attack) in ONE_MODULE]
FURTHER = [attack for attack in SHORT if shared_host(attack) not in ONE_MODULE]


def as_parameters(found: Iterable[Attack]) -> list[ParameterSet]:
    """Return the parameters of a test that makes these attacks."""
    return [
        pytest.param(each, id=each.name, marks=pytest.mark.release if each.name in COSTLY else ()) for each in found
    ]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    found = Hosts(tmp_path_factory.mktemp("programme"))
    with found.open:
        yield found


def withstands(hosts: Hosts, attack: Attack) -> None:
    """Make an attack: its bounds of memory and disk hold, the host's answers are right, and no honest call fails."""
    result = hosts.attacked(attack)
    print(f"p99 {result.quiet * 1000:.0f} -> {result.during * 1000:.0f} ms, {result.memory} and {result.disk} octets")
    found = [*result.failures, *result.slow]
    assert not found, found  # pytest rewrites no assertions here, and would say none of it.
