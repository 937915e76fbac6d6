"""The error of a filter that cannot be used."""

from __future__ import annotations

from agtphost.vocabulary.escaping import escape


class FilterError(Exception):
    """
    A filter has a fault.

    :param field: the field whose value is wrong; ``filter`` for the text as a whole.
    :param explanation: what is wrong, with the value.
    :param remedy: what to write instead.
    """

    def __init__(self, field: str, explanation: str, remedy: str) -> None:
        super().__init__(f"{explanation} {remedy}")
        self.field = field
        self.explanation = explanation
        self.remedy = remedy


def quote(value: str) -> str:
    """Return a value for a message: short, and with no character that changes how the message looks."""
    shown = escape(repr(value[:40]))
    return f"{shown[:-1]}...{shown[-1]}" if len(value) > 40 else shown
