"""Statements of a transaction whose results are not needed: they wait for the next one and go with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agtphost.stores.postgres.connection import DatabaseError, Session

_Statement = tuple[str, Sequence[Any]]


class StatementQueue:
    """
    Sends the statements of one session in the order in which they were given.

    A statement that fails is reported by what sends it: the next :meth:`execute`, or :meth:`commit`.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._waiting: list[_Statement] = []

    def add(self, statement: str, parameters: Sequence[Any]) -> None:
        """Run a statement, with ``?`` for parameters, together with the next one that is not added."""
        self._waiting.append((statement, parameters))

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> Any:
        """
        Run what waits and then a statement, and return its cursor.

        :raises DatabaseError: one of them failed.
        """
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._session.run_together(waiting)
        return self._session.execute(statement, parameters)

    def commit(self) -> None:
        """
        Run what waits and COMMIT, in one message.

        :raises DatabaseError: one of them failed, or the answer was lost.
        """
        waiting, self._waiting = self._waiting, []
        if self._session.run_together([*waiting, ("COMMIT", ())]).command_status != b"COMMIT":
            raise DatabaseError(f"{self._session.name}: the transaction was rolled back")

    def clear(self) -> None:
        """Forget what waits."""
        self._waiting.clear()
