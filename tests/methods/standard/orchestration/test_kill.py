"""
A process dies at any commit: after the restart each step ran at most once, and the workflow goes on or says why not.

Every commit of a run is a boundary, before and after which the process ends; what was told to nobody may be lost. The
same with a process of its own: ``tests/system/test_workflows_killed.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agtphost.methods.standard.orchestration import workflow_items
from agtphost.methods.standard.orchestration.runner import Run
from tests.methods.standard.orchestration.hosts import Workshop, book, teas
from tests.methods.standard.orchestration.mortal import MortalStore
from tests.programmes import length

STEPS = [teas("green", capture="found"), book("a"), teas("black"), book("=found.kind"), book("c")]
ROOMS = ["a", "green", "c"]
CHAIN = {"steps": STEPS, "context_propagation": True}

Begin = Callable[[Workshop], None]


def at_once(host: Workshop) -> None:
    """A caller that waits."""
    host.begin("CHAIN", "/", CHAIN, caller=host.caller, headers={"Task-ID": "weekly"}).addErrback(lambda _: None)
    host.turn(1)


def behind(host: Workshop) -> None:
    """A caller that does not."""
    host.begin("CHAIN", "/", {**CHAIN, "background": True}, caller=host.caller).addErrback(lambda _: None)
    host.turn(1)


def paused(host: Workshop) -> None:
    """Made for later, paused, resumed; its time comes."""
    given = {**CHAIN, "start_at": workflow_items.stamp(host.seconds() + 100)}
    host.begin("CHAIN", "/", given, caller=host.caller).addErrback(lambda _: None)
    host.turn(1)
    listed = known(host)
    if listed and not host.mortal.dead:
        host.begin("PAUSE", "/", {"workflow_id": listed[0]}, caller=host.caller).addErrback(lambda _: None)
        host.turn(1)
        host.begin("RESUME", "/", {"workflow_id": listed[0]}, caller=host.caller).addErrback(lambda _: None)
        host.turn(1)
    host.turn(120)


def known(host: Workshop) -> list[str]:
    """The workflows that are on record."""
    held = host.core.services.evidence.held
    return [item.key for item in held.all(workflow_items.WORKFLOW)]


def boundaries(begin: Begin) -> Iterator[tuple[int, bool]]:
    """Every commit of a run that nothing ends."""
    store = MortalStore()
    host = Workshop(store=store)
    store.commits = 0
    before = store.commits
    begin(host)
    assert host.rooms() == ROOMS
    for number in range(1, store.commits - before + 1):
        yield number, False
        yield number, True


def life(begin: Begin, number: int, *, after: bool) -> str:
    """
    One life that ends at a boundary, and the next.

    :return: what became of the workflow: its state in the end, with ``told`` where its caller had to say what became
        of a step; empty where it never came to be.
    :raises AssertionError: a step ran twice, or the workflow neither went on nor said why not.
    """
    store = MortalStore()
    first = Workshop(store=store)
    store.dies(number, after=after)
    begin(first)
    assert store.dead
    store.lives()
    second = Workshop(store=store, done=first.done)
    assert second.core
    second.turn(1)
    second.turn(150)
    at = f"commit {number}, {'after' if after else 'before'}"
    assert max(Counter(second.rooms()).values(), default=0) <= 1, f"{at}: {second.done}"
    found = known(second)
    if not found:
        assert second.rooms() == [], at
        return ""
    shown = second.workflow(found[0])
    said = ""
    if shown["status"] == "paused":
        second.result("RESUME", {"workflow_id": found[0]})
        second.turn(150)
        shown = second.workflow(found[0])
        said = "resumed "
    if shown["status"] == "interrupted":
        why = shown["why"]
        assert why["reason"] == "workflow-in-doubt" and why["explanation"], at
        done = len(second.rooms()) > ROOMS.index(_room(why["step"]))
        assert second.ask("RESUME", {"workflow_id": found[0]}).status == 409
        outcome = {"step": why["step"], "outcome": "done" if done else "repeat"}
        second.result("RESUME", {"workflow_id": found[0], "checkpoint": outcome})
        second.turn(1)
        shown = second.workflow(found[0])
        said += "told "
    assert shown["status"] == "finished", f"{at}: {shown}"
    assert second.rooms() == ROOMS, f"{at}: {second.done}"
    return said + str(shown["status"])


def _room(step: int) -> str:
    return {2: "a", 4: "green", 5: "c"}[step]


@pytest.mark.programme
@pytest.mark.parametrize("begin", [at_once, behind, paused], ids=lambda begin: begin.__name__)
def test_each_step_runs_at_most_once(begin: Begin) -> None:
    """METH-042, METH-047: whatever commit is the last one of a process."""
    chosen = list(boundaries(begin))[:: length(3, 1)]
    found = Counter(life(begin, number, after=after) for number, after in chosen)
    # All kinds of endings came about: those that say so, and those that go on by themselves.
    assert found["finished"] and found["told finished"], found


def test_a_failed_step_is_escalated_once_whenever_the_process_dies() -> None:
    """METH-042: between the ESCALATE and the record that the workflow waits for it as well."""
    given = {"steps": [book("a"), {**book("b"), "path": "/failing"}], "on_failure": "escalate"}

    def begin(host: Workshop) -> None:
        host.begin("CHAIN", "/", given, caller=host.caller).addErrback(lambda _: None)
        host.turn(1)

    counted = MortalStore()
    host = Workshop(store=counted)
    assert host.core
    counted.commits = 0
    begin(host)
    waited = 0
    for number in range(1, counted.commits + 1):
        store = MortalStore()
        first = Workshop(store=store)
        assert first.core
        store.dies(number, after=True)
        begin(first)
        store.lives()
        second = Workshop(store=store)
        assert second.core
        second.turn(1)
        states = [item.value["state"] for item in second.core.services.evidence.held.all(workflow_items.WORKFLOW)]
        found = list(second.core.services.evidence.held.all("escalation"))
        assert len(found) == states.count("paused"), (number, states)
        waited += len(found)
    assert waited >= 2, "the control: there was something to escalate after some of the deaths"


def test_a_runner_that_forgets_what_has_begun_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: without the look at begun steps, some are taken twice."""
    restore = Run.restore

    def forgetful(self: Run, kept: Any) -> Any:
        return restore(self, {number: each for number, each in kept.items() if each["state"] != workflow_items.BEGUN})

    monkeypatch.setattr(Run, "restore", forgetful)
    with pytest.raises(AssertionError, match="commit"):
        for number, after in boundaries(at_once):
            life(at_once, number, after=after)
