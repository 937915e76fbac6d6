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

    :ivar session: of which nothing is being sent when it is replaced; what waits then goes to the new one.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self._waiting: list[_Statement] = []

    def add(self, statement: str, parameters: Sequence[Any]) -> None:
        """Run a statement, with ``?`` for parameters, together with the next one that is not added."""
        self._waiting.append((statement, parameters))

    def take(self) -> Sequence[_Statement]:
        """Return what waits, and forget it."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> Any:
        """
        Run what waits and then a statement, and return its cursor.

        :raises DatabaseError: one of them failed.
        """
        if self._waiting:
            self.session.run_together(self.take())
        return self.session.execute(statement, parameters)

    def commit(self) -> None:
        """
        Run what waits and COMMIT, in one message.

        :raises DatabaseError: one of them failed, or the answer was lost.
        """
        self.run_and_commit(self.take())

    def run_and_commit(self, transaction: Sequence[_Statement]) -> None:
        """
        Run statements and COMMIT, in one message.

        :raises DatabaseError: one of them failed, or the answer was lost.
        """
        if self.session.run_together([*transaction, ("COMMIT", ())]).command_status != b"COMMIT":
            raise DatabaseError(f"{self.session.name}: the transaction was rolled back")
