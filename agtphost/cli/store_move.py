"""The mark of a store that was copied to another place: completed, and removed again."""

from __future__ import annotations

import time
from contextlib import closing, suppress
from dataclasses import replace

from agtphost.cli.failures import WrongInput
from agtphost.cli.output import print_note
from agtphost.stores import Search, StoreError
from agtphost.stores.location import StoreLocation
from agtphost.stores.moves import StoreMove
from agtphost.stores.settings import locate_url
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.times import instant


def new_move(target: StoreLocation) -> StoreMove:
    """
    Return the mark for a store that is about to be copied.

    :raises StoreError: the copy has no URL that can be written down.
    """
    return StoreMove(target=target.url, at=instant(time.time_ns() // 1000), complete=False)


def arriving_move(move: StoreMove) -> StoreMove:
    """Return the mark that keeps hosts from a copy until the store that it is of is known to have been copied."""
    return replace(move, target="", complete=False)


def finish_move(source: StoreLocation, target: StoreLocation, move: StoreMove) -> bool:
    """
    Complete the mark of a store whose copy is there, and then let hosts serve the copy.

    :return: whether the store had this mark, and the copy is that of the same command; otherwise hosts serve neither.
    :raises StoreError: one of them cannot be written; the same command, typed again, goes on here.
    """
    if not move.complete and not source.change_move(move, move.finish()):
        return False
    arriving = target.find_move()
    if arriving is None or not arriving.is_arriving:
        return True
    return arriving == arriving_move(move) and target.change_move(arriving, None)


def holds_copy(target: StoreLocation, source: StoreLocation) -> bool:
    """
    Return whether a store has the newest record of another one; or, if that has no record, whether there is a store.

    :raises StoreError: one of them cannot be read.
    """
    if not target.await_creation():
        return False
    with closing(source.open_reader()) as reader:
        newest = reader.latest(None, 1, Search()).records
    with closing(target.open_reader()) as reader:
        return not newest or reader.number_of(newest[0][1].audit_id) is not None


def finish_interrupted(source: StoreLocation, target: StoreLocation) -> bool:
    """
    Finish the move of a store whose copy is there, although its command did not report that; return whether it is.

    :raises StoreError: one of the stores cannot be read, or the mark cannot be written.
    """
    move = source.find_move()
    if move is None or move.target != target.url or not holds_copy(target, source):
        return False
    return finish_move(source, target, move)


def withdraw_move(source: StoreLocation, target: StoreLocation, move: StoreMove) -> None:
    """Remove the mark of a store after its copy failed, if the copy is certainly not there."""
    with suppress(StoreError, OSError):
        if not holds_copy(target, source):
            source.change_move(move, None)
            return
    print_note(f"whether the copy is there is not known. {move.explain(source.name)}")


def reopen_store(store: StoreLocation, password: str | None, *, force: bool) -> StoreMove:
    """
    Remove the mark of a store, so that hosts can serve it again, and return the mark.

    :param password: of a database's role, to look at the copy.
    :param force: whether the copy is not looked at.
    :raises WrongInput: the store has no mark; or the copy is there, was there, or cannot be looked at.
    :raises StoreError: the store cannot be read, or the mark cannot be removed.
    """
    move = store.find_move()
    if move is None:
        raise WrongInput(f"{store.name} is not marked as copied; nothing was changed")
    if not force:
        try:
            is_there = holds_copy(locate_url(move.target, password), store)
        except (StoreError, OSError) as error:
            raise WrongInput(
                f"whether the copy {move.target} is there is not known: {explain(error)}",
                "Nothing was changed. If no host served the copy and none will, add --force.",
            ) from None
        if is_there:
            raise WrongInput(
                f"the copy {move.target} is there, and a host may serve it; nothing was changed",
                "Write it into [store] url. If no host served it, nor a copy of it, and none will, remove it and add "
                "--force.",
            )
        if move.complete:
            # It can have been copied on before it was removed: then the next copy has records that are missing here.
            raise WrongInput(
                f"the copy {move.target} was there and is not there now: hosts may serve a copy of it elsewhere; "
                "nothing was changed",
                "If no host served the copy, nor a copy of it, and none will, add --force.",
            )
    if not store.change_move(move, None):
        raise WrongInput(f"{store.name} has another mark now; nothing was changed", "Run the command again.")
    return move
