"""``[[grant]]``: what the host lets an agent call, from the file."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from agtphost.config.values import Items, Line, Section, Token, form
from agtphost.vocabulary.grants import is_grant


def _moment(value: Any) -> datetime:
    """
    Return a time that is given as one of TOML or as text; without an offset it is UTC, and a date is its beginning.
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError("must be a time such as 2027-01-31T00:00:00Z, or a date") from None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime):
        raise ValueError("must be a time such as 2027-01-31T00:00:00Z, or a date")
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


Moment = Annotated[datetime, BeforeValidator(_moment)]
Granted = Annotated[
    Line,
    form(is_grant, "holds {}, which cannot be granted; possible are files.read_file, files.*, QUERY /books/*"),
]


class GrantSection(Section):
    """An entry of ``[[grant]]``: what an agent may call here; it calls what its grants name, and nothing else."""

    agent: Token
    """Its label, or its Agent-ID."""

    allow: Annotated[Items[Granted], Field(min_length=1)]
    """
    What it may call, as far as its document and its certificate give it that: ``server.tool``, ``server.*``,
    ``METHOD /path`` with the template as DISCOVER shows it, ``METHOD`` for what the host itself answers; ``*`` at the
    end for any rest.
    """

    until: Moment | None = None
    """
    When it ends; None: never. Then the agent calls nothing, unless another grant names it. A date is its beginning in
    UTC, and a time without a zone is UTC: write ``2027-01-31T12:00:00+01:00`` for another.
    """

    @property
    def ends(self) -> float | None:
        """The time of :attr:`until` in seconds since the Unix epoch; None: never."""
        return None if self.until is None else self.until.timestamp()
