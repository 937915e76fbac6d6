"""What a case is, and how the modules of cases are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from agtphost.conformance.target import Target

Check = Callable[["Target"], object]
"""Looks at the target; returns where the requirement holds."""


class Failure(Exception):
    """
    The target does not do what a requirement says; the message says what it did instead.

    :param cause: what other cases may fail of as well, such as one refusal; empty: the message.
    """

    def __init__(self, message: str, cause: str = "") -> None:
        super().__init__(message)
        self.cause = cause or message


class Inapplicable(Exception):
    """The target is such that the case cannot be observed; the message completes ``needs ...``."""


class Need(Enum):
    """
    What a case needs beyond a connection.

    The value is what is needed, and the option of the command that supplies
    it; no option where the target itself has it or has it not.
    """

    AGENT = ("an agent", "--cert or --agent-id")
    CERTIFICATE = ("an agent's certificate", "--cert")
    SECOND = ("a second agent's certificate", "--second-cert")
    REGISTRAR = ("the Genesis issuer's certificate", "--registrar-cert")
    EXPENDABLE = ("an agent whose life may be ended", "--destructive --expendable")
    SIGNING_KEY = ("the key that the server signs with", "--signing-key")
    SIGNATURES = ("records that are signed", "")
    MANIFEST = ("a manifest", "")
    ENDPOINT = ("an endpoint that the agent may call without effects", "")
    SCHEMA = ("such an endpoint whose input schema declares members", "")
    SCOPED = ("an endpoint with required_scopes that the agent holds, and a scope that it does not require", "")
    FORBIDDEN = ("an endpoint whose required_scopes the agent lacks", "")
    GUARDED = ("an endpoint that asks for more than an Agent-ID", "")
    TEMPLATE = ("a callable endpoint with a path parameter", "")
    NAMED_ERROR = ("an endpoint that declares errors", "")
    HOSTED = ("a hosted agent that is disclosed", "")
    GENESIS = ("a hosted agent with a Genesis", "")
    TOOL = ("a hosted tool that the agent may call", "")
    ALIAS = ("a method alias", "")
    REDIRECT = ("a method redirect", "")

    @property
    def what(self) -> str:
        """In words."""
        return self.value[0]

    @property
    def option(self) -> str:
        """The option that supplies it; empty where none does."""
        return self.value[1]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One observation that a requirement calls for."""

    id: str
    """``area.name``; stable."""

    requirements: tuple[str, ...]
    """The ids of the lines that it shows."""

    title: str
    """One sentence: what holds where the case passes."""

    needs: tuple[Need, ...] = ()
    check: Check

    @property
    def area(self) -> str:
        """The first part of the id."""
        return self.id.partition(".")[0]


class Cases(list[Case]):
    """
    The cases of one area, in the making.

    :param area: the first part of their ids.
    """

    def __init__(self, area: str) -> None:
        super().__init__()
        self._area = area

    def row(
        self,
        name: str,
        requirements: str,
        title: str,
        check: Callable[..., object],
        *values: object,
        needs: Sequence[Need] = (),
    ) -> None:
        """
        Add one row of a table.

        :param requirements: ids, separated by spaces.
        :param check: called with the target and ``values``.
        """
        bound: Check = _with(check, values) if values else check
        self.append(
            Case(
                id=f"{self._area}.{name}",
                requirements=tuple(requirements.split()),
                title=title,
                needs=tuple(needs),
                check=bound,
            )
        )

    def case(self, name: str, requirements: str, *needs: Need) -> Callable[[Check], Check]:
        """Add the decorated function; its docstring is the title."""

        def added(check: Check) -> Check:
            self.row(name, requirements, (check.__doc__ or "").strip(), check, needs=needs)
            return check

        return added


def _with(check: Callable[..., object], values: Sequence[object]) -> Check:
    def called(target: Target) -> None:
        partial(check, target)(*values)

    return called


def fail(message: str) -> NoReturn:
    """The case has failed. :raises Failure: always."""
    raise Failure(message)


def expect(holds: object, message: str, cause: str = "") -> None:
    """:raises Failure: with ``message`` and ``cause``, unless ``holds``."""
    if not holds:
        raise Failure(message, cause)
