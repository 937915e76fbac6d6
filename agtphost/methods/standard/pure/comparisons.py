"""Comparisons of a number with a text, which never hold: counted, so that an answer names them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from agtphost.methods.standard.pure.number_columns import reads_as_number

MAX_WARNINGS: Final = 16
"""Members that one answer names."""

MAX_NAME: Final = 128
"""Characters of a member's name in a warning."""

_TEXT, _NUMBER = "text", "number"


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return _TEXT
    return _NUMBER if isinstance(value, (int, float)) and not isinstance(value, bool) else ""


class Comparisons:
    """The comparisons of one call whose sides are a number and a text."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}

    def note_order(self, member: str, value: Any, operand: Any) -> bool:
        """
        Count a comparison by ``<``, ``<=``, ``>`` or ``>=`` if one side is a number and the other a text.

        :param member: the place of the value, for the warning.
        :return: whether it was counted.
        """
        kind, other = _kind(value), _kind(operand)
        if not kind or not other or kind == other:
            return False
        self._count(member, kind)
        return True

    def note_equality(self, member: str, value: Any, operand: Any) -> None:
        """Count a comparison by equality if one side is a number and the other the text of one."""
        kind, other = _kind(value), _kind(operand)
        if kind and other and kind != other and reads_as_number(value if kind == _TEXT else operand):
            self._count(member, kind)

    def note_membership(self, member: str, value: Any, operands: list[Any]) -> None:
        """Count a search for a value in a list as :meth:`note_equality` does, once."""
        kind = _kind(value)
        if kind and not any(_kind(each) == kind for each in operands):
            for operand in operands[:1]:
                self.note_equality(member, value, operand)

    def _count(self, member: str, kind: str, times: int = 1) -> None:
        key = member[:MAX_NAME], kind
        if key in self._counts or len(self._counts) < MAX_WARNINGS:
            self._counts[key] = self._counts.get(key, 0) + times

    def counts(self) -> list[tuple[str, str, int]]:
        """Return what was counted, for :meth:`add`: member, kind and number."""
        return [(member, kind, count) for (member, kind), count in self._counts.items()]

    def add(self, counts: Iterable[tuple[str, str, int]]) -> None:
        """Add what another process has counted."""
        for member, kind, count in counts:
            self._count(member, kind, count)

    def warnings(self) -> list[dict[str, Any]]:
        """Return one warning for each member, with what to do about it."""
        return [
            {"member": member, "comparisons": count, "message": _message(member, count, kind)}
            for (member, kind), count in self._counts.items()
        ]


NoteComparison = Callable[[str, Any, Any], object]


def _message(member: str, count: int, kind: str) -> str:
    times = "once" if count == 1 else f"{count} times"
    if kind == _TEXT:
        return (
            f"{member} is text and was compared with a number {times}; a text is neither less than, equal to nor "
            "greater than a number. Keep it as a number: in CSV each cell of the column must be a plain number, or the "
            'schema of the collection says "type": "number".'
        )
    return (
        f"{member} is a number and was compared with a text {times}; a number is neither less than, equal to nor "
        "greater than a text. Write the number without quotes."
    )
