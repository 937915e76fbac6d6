"""A filter of records whose values are checked, and the search that it means."""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from agtphost.audit.filters.errors import FilterError, quote
from agtphost.audit.filters.fields import HOST, NONE, find_field, is_endpoint, read_time, split_endpoint
from agtphost.audit.filters.query_text import TEXT, join_terms, require_visible, split_terms
from agtphost.stores.record_search import Search
from agtphost.vocabulary import times
from agtphost.vocabulary.identifiers import is_agent_id

FindAgents = Callable[[str], Sequence[str]]
"""Returns the Agent-IDs of the agents that have a name."""

MOST_TEXTS: Final = 8
"""Texts of one filter."""

MOST_LISTED: Final = 5
"""Agents that a message lists, of those that share a name."""

MOST_COMPARED: Final = 100
"""Names that an unknown one is compared with."""

LONGEST_COMPARED: Final = 32
"""Characters of an unknown name for which the closest is sought: comparing two texts takes their lengths multiplied."""

CLOSE_LENGTHS: Final = 3
"""Difference of the lengths of two names that are close."""

NamesOfAgents = Callable[[], Iterable[str]]
"""Returns names of agents that there are."""


@dataclass(frozen=True, kw_only=True)
class RecordFilter:
    """A filter consists of conditions, all of which a record must meet."""

    values: Mapping[str, str]
    """By field, but for ``text``; names of agents are not looked up yet."""

    texts: tuple[str, ...] = ()
    since: int | None = None
    """Milliseconds since the Unix epoch."""

    until: int | None = None

    @classmethod
    def parse(
        cls, text: str, options: Mapping[str, str | None] | None = None, now: float | None = None
    ) -> RecordFilter:
        """
        Return the filter of a text, and of options with the names of fields, which are further terms.

        :param now: what relative times are counted from, in seconds since the Unix epoch; default: the present time.
        :raises FilterError: a term cannot be used, or several contradict each other.
        """
        given = [(name, value) for name, value in (options or {}).items() if value is not None]
        return cls.from_terms([*split_terms(text), *given], time.time() if now is None else now)

    @classmethod
    def from_terms(cls, terms: Iterable[tuple[str, str]], now: float) -> RecordFilter:
        """
        Return the filter of fields and their values.

        :raises FilterError: see :meth:`parse`.
        """
        values: dict[str, str] = {}
        texts: list[str] = []
        for name, value in terms:
            field = find_field(name)
            require_visible(field.name, value, field.longest)
            usual = field.check(field.name, value)
            if field.name == TEXT:
                texts.append(usual)
            elif field.name in values:
                remedy = f"Write {field.name} once, or search twice."
                raise FilterError(field.name, f"{field.name} is given twice.", remedy)
            else:
                values[field.name] = usual
        if len(texts) > MOST_TEXTS:
            raise FilterError(TEXT, f"The filter has {len(texts)} texts.", f"Write at most {MOST_TEXTS}.")
        endpoint = "tool" if is_endpoint(values.get("tool", "")) else "endpoint"
        for other in ("method", "path", "endpoint"):
            if endpoint in values and other in values and other != endpoint:
                raise FilterError(endpoint, f"{endpoint} and {other} are both given.", "Write one of them.")
        since = read_time("from", values["from"], now, ends=False) if "from" in values else None
        until = read_time("until", values["until"], now, ends=True) if "until" in values else None
        if since is not None and until is not None and until <= since:
            explanation = f"until {quote(values['until'])} is not after from {quote(values['from'])}."
            raise FilterError("until", explanation, "Write a time after from, or swap the two.")
        return cls(values=values, texts=tuple(texts), since=since, until=until)

    @property
    def terms(self) -> list[tuple[str, str]]:
        """Return the fields and values of the filter, as they were given."""
        return [*self.values.items(), *((TEXT, text) for text in self.texts)]

    def to_text(self) -> str:
        """Return the filter as a text, in which times are absolute."""
        moments = {"from": self.since, "until": self.until}
        terms = [
            (name, value if (moment := moments.get(name)) is None else _stamp(moment))
            for name, value in self.values.items()
        ]
        return join_terms([*terms, *((TEXT, text) for text in self.texts)])

    def to_search(self, find_agents: FindAgents, names: NamesOfAgents = tuple) -> Search:
        """
        Return the search that the filter means.

        :param names: for the message about a name that no agent has.
        :raises FilterError: no agent has a name, or several have it.
        """
        values = self.values
        method, path, tool = values.get("method"), values.get("path"), values.get("tool")
        if "endpoint" in values:
            method, path = split_endpoint(values["endpoint"])
        elif tool is not None and is_endpoint(tool):
            # Lists name a call of an endpoint like this where they name that of a tool.
            (method, path), tool = split_endpoint(tool), None
        status = values.get("status")
        is_class = status is not None and status.endswith("xx")
        return Search(
            agent=self._agent("agent", find_agents, names),
            caller="" if values.get("caller") == NONE else self._agent("caller", find_agents, names),
            chain="" if values.get("chain") == HOST else self._agent("chain", find_agents, names),
            operator=values.get("operator"),
            person=values.get("person"),
            tool=tool,
            method=method,
            path=path,
            status=None if status is None or is_class else int(status),
            status_class=int(status[0]) if status is not None and is_class else None,
            reason=values.get("reason"),
            session_id=values.get("session"),
            task_id=values.get("task"),
            since=self.since,
            until=self.until,
            reads=values.get("reads") != NONE,
            text=self.texts,
        )

    def _agent(self, field: str, find_agents: FindAgents, names: NamesOfAgents) -> str | None:
        value = self.values.get(field)
        return None if value is None else find_agent(field, value, find_agents, names)


def find_agent(field: str, value: str, find_agents: FindAgents, names: NamesOfAgents = tuple) -> str:
    """
    Return the Agent-ID that a value means: itself, or that of the one agent with this name.

    :param field: the name of the value in messages.
    :param names: of which the closest to an unknown one is suggested.
    :raises FilterError: no agent has the name, or several have.
    """
    if is_agent_id(value):
        return value
    found = find_agents(value)
    if len(found) == 1:
        return found[0]
    if not found:
        lower = value.lower()
        close = [lower] if find_agents(lower) else close_names(lower, names())
        meant = f"Did you mean {close[0]}? " if close else ""
        remedy = f"{meant}Write the name of a known agent, or an Agent-ID; `agtp agent ls` lists agents."
        raise FilterError(field, f"{field} {quote(value)} is not the name of an agent here.", remedy)
    listed = ", ".join(found[:MOST_LISTED]) + (", ..." if len(found) > MOST_LISTED else "")
    raise FilterError(
        field, f"{len(found)} agents have the name {quote(value)}.", f"Write the Agent-ID of one of them: {listed}."
    )


def close_names(value: str, names: Iterable[str]) -> list[str]:
    """
    Return the name that is closest to an unknown one; none if none is close, or the name is too long to compare.

    :param names: the first :data:`MOST_COMPARED` of about the same length are compared.
    """
    if len(value) > LONGEST_COMPARED:
        return []
    alike = (name for name in names if abs(len(name) - len(value)) <= CLOSE_LENGTHS)
    return difflib.get_close_matches(value, set(islice(alike, MOST_COMPARED)), 1)


def _stamp(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return times.stamp(seconds).replace("Z", f".{rest:03d}Z" if rest else "Z")
