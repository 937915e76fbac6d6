"""The form that filters past calls, and the query that it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from twisted.web.template import Tag, tags

from agtphost.audit.filters import FIELDS, FilterError
from agtphost.audit.filters.query_text import join_terms, split_terms
from agtphost.page import elements
from agtphost.page.page_visit import PageVisit
from agtphost.page.person_client import PageReply
from agtphost.page.time_range import MOST_CHARACTERS, TimeRange
from agtphost.page.value_text import show_value

PATH: Final = "/calls"

SINGLE_FIELDS: Final = (
    ("caller_id", "Caller (name or Agent-ID)"),
    ("chain", "Answered by (name or Agent-ID, or host)"),
    ("method", "Method"),
    ("path", "Path"),
    ("status", "Status, or a class such as 4xx"),
    ("reason", "Reason"),
    ("task_id", "Task-ID"),
)
"""Parameters of INSPECT besides ``filter``, and their labels."""

LONGEST: Final = 2_100
"""Characters of a filter that are sent: more than the host takes, so that it says what is wrong with a longer one."""

NAMING_READS: Final = frozenset({"method", "endpoint", "path", "reads"})
"""Fields of a filter that may be about reads of operators: one with such a field shows them."""

ALL: Final = "all"


@dataclass(frozen=True, kw_only=True)
class CallQuery:
    """A request for the view *Calls*: its filter, its range of time, and where the list begins."""

    given: Mapping[str, str]
    """The filter and the single fields, as they were typed."""

    since: str
    until: str
    shows_reads: bool
    """Whether the visitor asked for the reads of operators."""

    before: int | None

    @classmethod
    def of_visit(cls, visit: PageVisit) -> CallQuery:
        """Read the query of a visit."""
        single = [name for name, _ in SINGLE_FIELDS]
        given = {name: word for name in ("filter", *single) if (word := visit.query_word(name, LONGEST))}
        # Every field of the language can stand in an address; those without an input become part of the text.
        terms = [
            (name, word)
            for name in FIELDS
            if name not in (*single, "from", "until") and (word := visit.query_word(name, LONGEST))
        ]
        further = join_terms(term for term in terms if term != ("reads", ALL))
        if further:
            given["filter"] = f"{given.get('filter', '')} {further}".strip()
        before = visit.query_word("before")
        # A longer number is none that JSON has exactly.
        place = int(before) if before.isascii() and before.isdigit() and len(before) < 16 else 0
        if not place:
            visit.read.discard("before")
        return cls(
            given=given,
            since=visit.query_word("from", MOST_CHARACTERS),
            until=visit.query_word("until", MOST_CHARACTERS),
            shows_reads=visit.query_word("reads") == ALL,
            before=place or None,
        )

    @property
    def hides_reads(self) -> bool:
        """Return whether the reads of operators are left out."""
        asked = {name for name, _ in self._terms()} | self.given.keys()
        return not self.shows_reads and not NAMING_READS & asked

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the parameters of INSPECT, but for the place to begin at."""
        ends = {name: word for name, word in (("from", self.since), ("until", self.until)) if word}
        return {**self.given, **ends, **({"reads": "none"} if self.hides_reads else {})}

    @property
    def query(self) -> dict[str, str]:
        """Return the query of the view's address, but for the place to begin at."""
        ends = {name: word for name, word in (("from", self.since), ("until", self.until)) if word}
        return {**self.given, **ends, **({"reads": ALL} if self.shows_reads else {})}

    def link(self, **changes: str) -> str:
        """Return the address of the view with some members of the query replaced; an empty value removes one."""
        query = {name: word for name, word in {**self.query, **changes}.items() if word}
        return f"{PATH}?{urlencode(query)}" if query else PATH

    def time_range(self) -> TimeRange:
        """Return the range of the query; links to others drop times within the text of the filter."""
        others = {name: word for name, word in self.query.items() if name not in ("from", "until")}
        terms = self._terms()
        kept = [(name, value) for name, value in terms if name.lower() not in ("from", "until")]
        narrowed = len(kept) < len(terms)
        if narrowed:
            others.pop("filter")
            if kept:
                others["filter"] = join_terms(kept)
        return TimeRange(
            path=PATH, since=self.since, until=self.until, others=others, all_time=True, is_narrowed=narrowed
        )

    @property
    def terms(self) -> list[tuple[str, str]]:
        """Return the terms of the filter, with those of single fields."""
        single = [(name.removesuffix("_id"), word) for name, word in self.given.items() if name != "filter"]
        return [*self._terms(), *single]

    def _terms(self) -> list[tuple[str, str]]:
        """Return the terms of the filter; none where the host will refuse it."""
        try:
            return list(split_terms(self.given.get("filter", "")))
        except FilterError:
            return []


def draw_form(asked: CallQuery, reply: PageReply) -> Tag:
    """
    Return the form.

    :param reply: of the request with this filter: an error of the filter is shown next to the field.
    """
    wrong = reply.status == 422
    chosen = asked.time_range()
    error = f"{show_value(reply.explanation, 600)} {show_value(reply.remedy, 600)}".strip() if wrong else ""
    given = {
        "placeholder": "agent:demo status:4xx from:-1h",
        "autocomplete": "off",
        "spellcheck": "false",
        "data-complete": "/completions",
        **({"aria-invalid": "true", "aria-describedby": "filter-error"} if wrong else {}),
    }
    used = any(name in asked.given for name, _ in SINGLE_FIELDS)
    single = tags.details(
        tags.summary("Single fields"),
        tags.div(
            *(
                elements.field(name, label, f"filter-{name}", asked.given.get(name, ""))
                for name, label in SINGLE_FIELDS
            ),
            class_="fields",
        ),
        **({"open": "open"} if used else {}),
    )
    checked = {"checked": "checked"} if asked.shows_reads else {}
    return tags.form(
        tags.div(
            elements.field("filter", "Filter", "filter-filter", asked.given.get("filter", ""), **given),
            *([tags.p(elements.isolate(error), id="filter-error", role="alert", class_="error")] if wrong else []),
            class_="whole",
        ),
        *chosen.fields(),
        tags.p(
            tags.input(type="checkbox", name="reads", value=ALL, id="filter-reads", **checked),
            tags.label("Show reads by operators, including those of this page", for_="filter-reads"),
            class_="check",
        ),
        single,
        tags.p(
            tags.button("Filter", type="submit"),
            tags.a("Clear", href=PATH, class_="button"),
            class_="buttons",
        ),
        method="get",
        action=PATH,
        class_="filters",
        **{"aria-label": "Filter calls"},
    )


def draw_saved() -> Tag:
    """Return the place of saved filters, which the browser keeps; every filter is a link as well."""
    return tags.details(
        tags.summary("Saved filters"),
        tags.noscript(
            tags.p("Filters are saved by a script. Without it, keep the address of this view: it has the whole filter.")
        ),
        tags.div(**{"data-saved": PATH}),
        class_="saved",
    )
