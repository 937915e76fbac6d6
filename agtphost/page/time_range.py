"""A range of time that a view is about: presets, a form for any other, and links that keep the rest of the query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode

from twisted.web.template import Tag, tags

from agtphost.page import elements

PRESETS: Final = (("-15m", "15 min"), ("-1h", "1 h"), ("-24h", "24 h"), ("-7d", "7 d"))
"""Values of ``from``, and their names."""

MOST_CHARACTERS: Final = 64
"""Characters of a time that are sent: more than any time has, so that the host says what is wrong with a longer one."""


@dataclass(frozen=True, kw_only=True)
class TimeRange:
    """
    A chosen range of time.

    The host reads its ends, by the parser of the filter language.
    """

    path: str
    """The path of the view."""

    since: str
    """A time of the filter language, or empty."""

    until: str
    others: Mapping[str, str] = field(default_factory=dict)
    """The rest of the query, which links keep."""

    all_time: bool = False
    """Whether the view can be about all times."""

    is_narrowed: bool = False
    """Whether something else limits the times, so that no preset tells what is shown."""

    @property
    def parameters(self) -> Mapping[str, str]:
        """Return the ends that are given, as parameters of INSPECT and of the page."""
        return {name: word for name, word in (("from", self.since), ("until", self.until)) if word}

    def link(self, since: str, until: str = "") -> str:
        """Return the address of the same view with another range."""
        ends = {name: word for name, word in (("from", since), ("until", until)) if word}
        query = urlencode({**self.others, **ends})
        return f"{self.path}?{query}" if query else self.path

    def presets(self) -> Tag:
        """Return links to the usual ranges."""
        known = [*PRESETS, *([("", "All")] if self.all_time else [])]
        return tags.ul(
            *(
                tags.li(
                    tags.a(
                        text,
                        href=self.link(since),
                        **(
                            {"aria-current": "true"}
                            if (since, "") == (self.since, self.until) and not self.is_narrowed
                            else {}
                        ),
                    )
                )
                for since, text in known
            ),
            class_="presets",
            **{"aria-label": "Time range"},
        )

    def fields(self) -> list[Tag]:
        """Return the fields of both ends."""
        given = {"placeholder": "-1h, 2026-11-27T10:00Z", "autocomplete": "off"}
        return [
            elements.field("from", "From", "range-from", self.since, **given),
            elements.field("until", "Until", "range-until", self.until, **given),
        ]
