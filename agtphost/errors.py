"""
The errors that cross package boundaries.

Three families, by whose fault it is:

- :class:`Refusal`: the host decided not to (or could not) do what a request
  asked. One place turns it into a response: :mod:`agtphost.dispatch`.
- :class:`RemoteProtocolError` and :class:`LocalProtocolError`: octets that
  break the AGTP framing rules, sent by the peer or about to be sent by us.
- :class:`ConfigurationError`: everything that keeps the host from starting, with all problems together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from agtphost.vocabulary.foreign_errors import original_of, split
from agtphost.vocabulary.reasons import ForeignReason, Reason
from agtphost.vocabulary.status import Status


class DamagedEvidence(Exception):
    """A record differs from what was signed; the message says what, for the operator."""


class Refusal(Exception):
    """
    A request that ends in a status outside 2xx, or in 262.

    :param reason: why; it has a status, and texts that are the default.
    :param explanation: one sentence for a person: what was wrong.
    :param status: the AGTP status of the response, where ``reason`` has several.
    :param remedy: one sentence: what would make the request succeed; empty
        where nothing the caller can do would.
    :param details: further members of the response body.
    :param headers: further response header fields.
    :param close: whether the connection ends after the response, because its
        framing can no longer be trusted.
    :param changes: state items that change with the record of the refusal
        (:class:`agtphost.audit.drafts.Change`).
    :param extra: further members of the record.
    :param scopes: with 262 and 455, the scopes concerned: what is missing, or was claimed in excess; for the record
        (core v08 section 10). Empty where no scope would help.
    :param cause: what was wrong in a token, for the record, where ``reason`` has to be coarser on the wire.
    :param cure: the command by which an operator lifts the refusal, for the record (:mod:`agtphost.dispatch.cures`).
    :raises ValueError: ``reason`` has not that status.
    """

    def __init__(
        self,
        reason: Reason | ForeignReason,
        explanation: str | None = None,
        *,
        status: Status | None = None,
        remedy: str | None = None,
        details: Mapping[str, object] | None = None,
        headers: Sequence[tuple[str, str]] = (),
        close: bool = False,
        changes: Sequence[Any] = (),
        extra: Mapping[str, object] | None = None,
        scopes: Sequence[str] = (),
        cause: str = "",
        cure: str = "",
    ) -> None:
        self.status = reason.statuses[0] if status is None else status
        if self.status not in reason.statuses:
            raise ValueError(f"{reason} has not the status {int(self.status)}")
        self.reason = reason
        self.explanation = reason.meaning if explanation is None else explanation
        self.remedy = reason.remedy if remedy is None else remedy
        self.details: Mapping[str, object] = details or {}
        self.headers = headers
        self.close = close
        self.changes = changes
        self.extra: Mapping[str, object] = extra or {}
        self.scopes = tuple(scopes)
        self.cause = cause
        self.cure = cure
        super().__init__(f"{int(self.status)} {reason}: {self.explanation}")


def not_found(
    reason: Reason, explanation: str | None = None, *, remedy: str | None = None, parameter: str = ""
) -> Refusal:
    """
    Refuse a request that names what doesn't exist, or what its caller may not see.

    The two must be indistinguishable: by status, reason, text, length or header fields, and by the record. So this
    takes no argument that depends on the thing, and code that looks something up for a caller raises it in both cases,
    at one place.

    :param reason: one of those that say that something is unknown.
    :param explanation: a sentence that names no identifier; by default what the reason means.
    :param remedy: what the caller can do about it.
    :param parameter: the parameter that named the thing; empty where it was in the path or a header field.
    """
    return Refusal(reason, explanation, remedy=remedy, details={"parameter": parameter} if parameter else None)


class NamingRefusal(Refusal):
    """
    A refusal that names alternatives. Each caller learns only those that it may call; until that is known, none is
    named.

    :param among: makes the details, of what tells which bindings may be named.
    :param asked: the scopes that what it could name asks for. They are the same for every name, so that the scopes that
        a caller lacks may be named to it.
    """

    def __init__(
        self,
        reason: Reason,
        explanation: str | None = None,
        *,
        remedy: str | None = None,
        among: Callable[[Callable[[Any], bool]], Mapping[str, object]],
        asked: Iterable[str] = (),
    ) -> None:
        super().__init__(reason, explanation, remedy=remedy, details=among(lambda binding: False))
        self._among = among
        self.asked = frozenset(asked)

    def name_to(self, admits: Callable[[Any], bool]) -> None:
        """Name what the caller may call."""
        self.details = self._among(admits)


class ProtocolError(Exception):
    """Octets that do not follow core v08 section 5.4.1."""


class LocalProtocolError(ProtocolError):
    """An attempt of this program to send a message that the framing rules forbid."""


class RemoteProtocolError(ProtocolError):
    """
    The peer sent octets that the framing rules forbid.

    :param reason: its status is what a server answers before it closes the connection.
    :param explanation: one sentence naming the rule that was broken.
    """

    def __init__(self, reason: Reason, explanation: str) -> None:
        super().__init__(f"{reason}: {explanation}")
        self.reason = reason
        self.explanation = explanation


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A fault of a configuration."""

    message: str
    """What is wrong, as one sentence."""

    file: str = ""
    """The file it is in; empty where no file is to blame."""

    line: int = 0
    """Its line, counted from 1; 0 where unknown."""

    hint: str = ""
    """What to do about it; may be empty."""

    original: str = field(default="", compare=False)
    """The text of a foreign library that the message translates, for ``--json`` and the log; empty without one."""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: " if self.file and self.line else f"{self.file}: " if self.file else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{where}{self.message}{hint}"


class ConfigurationError(Exception):
    """
    The host cannot start, or not adopt a new configuration.

    :param problems: every reason found, in file order.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


@contextmanager
def report_unreadable() -> Iterator[None]:
    """
    Report a file or a directory that this user may not read as a fault of the configuration.

    A start looks at many files before it reads one; each look may fail.

    :raises ConfigurationError: in place of a :class:`PermissionError` that names a file.
    """
    try:
        yield
    except PermissionError as error:
        if not error.filename:
            raise
        _, cure = split(error)
        message = "cannot be read: this user has no right to"
        problem = Problem(message=message, file=str(error.filename), hint=cure, original=original_of(error))
        raise ConfigurationError([problem]) from error
