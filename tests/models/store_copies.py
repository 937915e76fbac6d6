"""
An explicit-state model of ``agtp store copy`` and ``agtp store reopen`` with three places for a store.

Commands can die between any two steps, run beside each other, and be typed again; people serve, copy on and remove any
store in any order. An action has the name of the function that it stands for. A rule is a text that :func:`explore`
returns with the actions that lead to its violation; :data:`MUTANTS` are changes of the design, each with such a rule.

``--force`` and ``--keep-serving`` are not in the model: with them, the person who types the command is responsible.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

FORK = "hosts can serve two stores"
LOST = "a store is served that lacks a record of a host"
RULES = (FORK, LOST)

MUTANTS = {
    "the copy has no mark": LOST,
    "the copy is opened before its end is reported": LOST,
    "the store is marked after its copy can be seen": FORK,
    "a complete mark is removed where the copy is gone": LOST,
    "the copy of another command is opened": FORK,
}
"""Changes of the design, each with a rule that it violates."""

OPENING_EARLY = ("the copy is opened before its end is reported", "the store is marked after its copy can be seen")

COMMANDS, SERVED, REMOVED = 3, 2, 2
"""How many copies, periods of serving, and removals there are in a world."""


class Mark(NamedTuple):
    """
    Why hosts do not serve a store.

    ``target`` is -1 in a copy whose command has not reported its end. ``copy`` stands for the time in a mark.
    """

    target: int
    copy: int
    complete: bool = False


class Place(NamedTuple):
    """A store: the newest record that it has, and its mark."""

    newest: int = 0
    mark: Mark | None = None


class Command(NamedTuple):
    """A command that copies a store, and what it has done: ``marked``, ``published`` or ``finished``."""

    source: int
    target: int
    copy: int
    done: str = "marked"
    newest: int = 0


class World(NamedTuple):
    """Three places, the commands that run, and what has happened."""

    places: tuple[Place | None, ...] = (Place(), None, None)
    commands: frozenset[Command] = frozenset()
    newest: int = 0
    copies: int = 0
    removed: int = 0


def _put(world: World, number: int, place: Place | None) -> World:
    return world._replace(places=(*world.places[:number], place, *world.places[number + 1 :]))


def _go_on(world: World, command: Command, later: Command | None = None) -> World:
    return world._replace(commands=world.commands - {command} | ({later} if later is not None else set()))


def _next(world: World, mutant: str) -> Iterator[tuple[str, World]]:
    """Yield each step that can follow, with the world that it leads to."""
    for number, place in enumerate(world.places):
        if place is not None:
            yield from _by_people(world, number, place, mutant)
    for command in world.commands:
        yield f"a copy from {command.source} to {command.target} is killed", _go_on(world, command)
        yield from _by_command(world, command, mutant)


def _by_people(world: World, number: int, place: Place, mutant: str) -> Iterator[tuple[str, World]]:
    mark = place.mark
    if mark is None and world.newest < SERVED:
        served = _put(world, number, place._replace(newest=world.newest + 1))
        yield f"a host serves {number}", served._replace(newest=world.newest + 1)
    if world.removed < REMOVED:
        yield f"{number} is removed", _put(world, number, None)._replace(removed=world.removed + 1)
    if mark is None or mark.target >= 0:
        for target in {*range(len(world.places))} - {number}:
            yield from _begin(world, number, place, target, mutant)
    is_gone = mark is not None and mark.target >= 0 and world.places[mark.target] is None
    if is_gone and (not mark.complete or mutant == "a complete mark is removed where the copy is gone"):
        yield f"reopen_store {number}", _put(world, number, place._replace(mark=None))


def _begin(world: World, number: int, place: Place, target: int, mutant: str) -> Iterator[tuple[str, World]]:
    """Yield what ``agtp store copy`` begins with: the mark, or the end of a copy that is there."""
    mark, there = place.mark, world.places[target]
    if there is None and world.copies < COMMANDS and (mark is None or (mark.target == target and not mark.complete)):
        copy = world.copies + 1
        marked = place._replace(mark=Mark(target, copy))
        if mutant == "the store is marked after its copy can be seen":
            marked = place
        begun = _put(world, number, marked)._replace(copies=copy)
        command = Command(number, target, copy, newest=place.newest)
        yield f"StoreTables.mark {number} to {target}", begun._replace(commands=begun.commands | {command})
    if there is not None and mark is not None and mark.target == target and there.newest >= place.newest:
        command = Command(number, target, mark.copy, "finished" if mark.complete else "published", place.newest)
        yield f"finish_interrupted {number} to {target}", world._replace(commands=world.commands | {command})


def _by_command(world: World, command: Command, mutant: str) -> Iterator[tuple[str, World]]:
    source, there = world.places[command.source], world.places[command.target]
    step = f"{command.source} to {command.target}"
    mark = Mark(command.target, command.copy)
    if command.done == "marked" and there is None:
        hidden = Mark(-1, command.copy)
        new = Place(command.newest, None if mutant == "the copy has no mark" else hidden)
        yield (
            f"write_tables {step}",
            _go_on(_put(world, command.target, new), command, command._replace(done="published")),
        )
        if source is not None and source.mark == mark:
            yield f"withdraw_move {step}", _go_on(_put(world, command.source, source._replace(mark=None)), command)
    elif command.done == "marked":
        yield f"write_tables {step} finds a store", _go_on(world, command)
    elif command.done == "published":
        if mutant in OPENING_EARLY:
            yield from _open(world, command, command._replace(done="opened"), mutant)
        elif source is not None and source.mark == mark:
            yield f"change_move {step}", _go_on(_complete(world, command), command, command._replace(done="finished"))
    elif command.done == "opened" and source is not None and source.mark in (mark, None):
        yield f"change_move {step}", _go_on(_complete(world, command), command)
    elif command.done == "finished":
        yield from _open(world, command, None, mutant)


def _complete(world: World, command: Command) -> World:
    source = world.places[command.source]
    assert source is not None
    return _put(world, command.source, source._replace(mark=Mark(command.target, command.copy, complete=True)))


def _open(world: World, command: Command, later: Command | None, mutant: str) -> Iterator[tuple[str, World]]:
    """Yield the removal of the mark of a copy: of this command's, by the time in both marks."""
    there = world.places[command.target]
    step = f"finish_move {command.source} to {command.target}"
    if there is None or there.mark is None or there.mark.target >= 0:
        return
    if there.mark.copy == command.copy or mutant == "the copy of another command is opened":
        yield step, _go_on(_put(world, command.target, there._replace(mark=None)), command, later)


def _faults(world: World) -> Iterator[str]:
    served = [place for place in world.places if place is not None and place.mark is None]
    if len(served) > 1:
        yield FORK
    if any(place.newest < world.newest for place in served):
        yield LOST


def explore(mutant: str = "", *, until: str = "") -> tuple[int, dict[str, list[str]]]:
    """
    Return how many worlds there are, and for each rule that is violated the actions that lead there.

    :param until: a rule whose violation ends the search.
    """
    first = World()
    came: dict[World, tuple[World, str] | None] = {first: None}
    found: dict[str, list[str]] = {}
    waiting = deque([first])
    while waiting and until not in found:
        world = waiting.popleft()
        for action, later in _next(world, mutant):
            if later not in came:
                came[later] = world, action
                waiting.append(later)
                for rule in _faults(later):
                    found.setdefault(rule, _path(came, later))
    return len(came), found


def _path(came: dict[World, tuple[World, str] | None], world: World) -> list[str]:
    actions: list[str] = []
    while (step := came[world]) is not None:
        world, action = step
        actions.append(action)
    return actions[::-1]
