"""The fields of a filter, and what each takes. The reference in ``docs/audit-search.rst`` is made of this table."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from difflib import get_close_matches
from typing import Final, NamedTuple

from agtphost.audit.filters.errors import FilterError, quote
from agtphost.audit.filters.query_text import LONGEST
from agtphost.vocabulary.identifiers import is_agent_id, is_agent_name, is_opaque_id

MOST_CHARACTERS: Final = 200
"""Characters of the name of a tool, a person or an operator: the index has no more of them."""

HOST: Final = "host"
"""The name of the host's own chain."""

NONE: Final = "none"
"""What `caller` says for calls without an agent."""

_METHOD = re.compile(r"[A-Z][A-Z0-9_-]{0,63}", re.ASCII)
_REASON = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}", re.ASCII)
_STATUS = re.compile(r"[1-9][0-9]{2}", re.ASCII)
_CLASS = re.compile(r"[1-9]xx", re.ASCII)
_PATH = re.compile(r"/\S*")
_ENDPOINT = re.compile(r"(?:(?P<method>\S+) +)?(?P<path>/\S*)")
_AGO = re.compile(r"-?([0-9]{1,6})([smhdw])", re.ASCII)
_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)

TIME_FORMS: Final = "2026-11-27T10:00Z, 2026-11-27T10:00:00+01:00, 2026-11-27 (UTC), -1h (s, m, h, d, w), or now"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Field(NamedTuple):
    """A field that a term can name."""

    name: str
    metavar: str
    """What the option of the same name shows of its value."""

    meaning: str
    """Which records it selects, as a phrase after "only"."""

    allowed: str
    """The values that it takes."""

    example: str
    check: Callable[[str, str], str]
    """Takes name and value; returns the value in its usual form, or raises :class:`FilterError`."""

    @property
    def longest(self) -> int:
        """The most characters of a value."""
        return MOST_CHARACTERS if self.allowed.startswith(NAMED) else LONGEST


def _fail(name: str, value: str, allowed: str) -> FilterError:
    return FilterError(name, f"{name} {quote(value)} is not valid.", f"Write {allowed}.")


def _checker(
    allowed: str, accepts: Callable[[str], object], form: Callable[[str], str] = str
) -> Callable[[str, str], str]:
    def check(name: str, value: str) -> str:
        usual = form(value)
        if not accepts(usual):
            raise _fail(name, value, allowed)
        return usual

    return check


def _check_operator(name: str, value: str) -> str:
    if is_agent_id(value):
        # Records have another digest of the key than the fingerprint that host.toml lists.
        raise _fail(name, value, "a name, or sha256:... as records and `agtp cert show FILE` (key_in_records) have it")
    return _named(name, value)


def _is_agent(value: str) -> bool:
    return is_agent_id(value) or is_agent_name(value)


def _check_endpoint(name: str, value: str) -> str:
    found = _ENDPOINT.fullmatch(value)
    method = (found["method"] or "").upper() if found is not None else ""
    if found is None or (method and not _METHOD.fullmatch(method)):
        raise _fail(name, value, ENDPOINT)
    return f"{method} {found['path']}".strip()


def is_endpoint(value: str) -> bool:
    """Return whether a value has the form ``METHOD /path``."""
    found = _ENDPOINT.fullmatch(value)
    return found is not None and found["method"] is not None and _METHOD.fullmatch(found["method"]) is not None


def split_endpoint(value: str) -> tuple[str | None, str]:
    """Return method and path of an endpoint; None for any method."""
    method, _, path = value.rpartition(" ")
    return method or None, path


AGENT: Final = "the name of an agent or its Agent-ID, 64 hexadecimal digits"
NAMED: Final = f"1 to {MOST_CHARACTERS} characters"
ENDPOINT: Final = 'a path such as /library, or "METHOD /library"'
STATUS: Final = "a number from 100 to 999, or a class such as 4xx"
OPAQUE: Final = "1 to 128 visible ASCII characters"

_named = _checker(NAMED, lambda value: 0 < len(value) <= MOST_CHARACTERS)
_opaque = _checker(OPAQUE, is_opaque_id)


def read_time(name: str, value: str, now: float, *, ends: bool) -> int:
    """
    Return a time in milliseconds since the Unix epoch.

    :param now: seconds since the Unix epoch.
    :param ends: whether a date means the end of that day, and not its beginning.
    :raises FilterError: the value is not a time, or has no zone.
    """
    if value == "now":
        return int(now * 1000)
    if ago := _AGO.fullmatch(value):
        return max(int((now - int(ago[1]) * _UNITS[ago[2]]) * 1000), 0)
    try:
        if _DATE.fullmatch(value):
            day = date.fromisoformat(value) + timedelta(days=1 if ends else 0)
            moment = datetime(day.year, day.month, day.day, tzinfo=UTC)
        else:
            moment = datetime.fromisoformat(value.upper())
        if moment.tzinfo is None:
            explanation = f"{name} {quote(value)} has no time zone."
            raise FilterError(name, explanation, f"Write {value.upper()}Z for UTC, or {value.upper()}+01:00.")
        # In UTC, in which answers have it, the year may be one that no time has.
        return max((moment.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1), 0)
    except (ValueError, OverflowError):
        raise FilterError(name, f"{name} {quote(value)} is not a time.", f"Write {TIME_FORMS}.") from None


def _check_time(name: str, value: str) -> str:
    read_time(name, value, 0.0, ends=False)
    return value


FIELDS: Final = {
    field.name: field
    for field in (
        Field(
            "agent", "AGENT", "calls by this agent, or answered by it", AGENT, "agent:demo", _checker(AGENT, _is_agent)
        ),
        Field(
            "caller",
            "AGENT|none",
            "calls by this agent; none: calls without one",
            f"{AGENT}, or {NONE}",
            "caller:none",
            _checker(f"{AGENT}, or {NONE}", _is_agent),
        ),
        Field(
            "chain",
            "AGENT|host",
            "records of this agent's chain; host: of the host's own",
            f"{AGENT}, or {HOST}",
            "chain:host",
            _checker(f"{AGENT}, or {HOST}", _is_agent),
        ),
        Field(
            "operator",
            "NAME",
            "what this operator did, by name or by the key as records have it",
            f"{NAMED}, such as anna or sha256:5d41...",
            "operator:anna",
            _check_operator,
        ),
        Field("person", "NAME", "calls on behalf of this person", NAMED, "person:anna@example.com", _named),
        Field(
            "tool",
            "TOOL",
            "calls of this tool or action; files.*: of every tool of files",
            f"{NAMED}, such as files.read_file or files.*",
            "tool:files.read_file",
            _named,
        ),
        Field("endpoint", "ENDPOINT", "calls of this endpoint", ENDPOINT, 'endpoint:"QUERY /library"', _check_endpoint),
        Field(
            "method",
            "METHOD",
            "calls with this method",
            "the name of a method, such as QUERY",
            "method:QUERY",
            _checker("the name of a method, such as QUERY", _METHOD.fullmatch, str.upper),
        ),
        Field(
            "path",
            "PATH",
            "calls of this path, without a query",
            "a path that begins with /",
            "path:/library",
            _checker("a path that begins with /", _PATH.fullmatch),
        ),
        Field(
            "status",
            "STATUS",
            "answers with this status, such as 404, or of this class, such as 4xx",
            STATUS,
            "status:4xx",
            _checker(STATUS, lambda value: _STATUS.fullmatch(value) or _CLASS.fullmatch(value), str.lower),
        ),
        Field(
            "reason",
            "TOKEN",
            "refusals for this reason",
            "a token such as scope-required",
            "reason:scope-required",
            _checker("a token such as scope-required", _REASON.fullmatch),
        ),
        Field("session", "ID", "calls of this session", OPAQUE, "session:s-1", _opaque),
        Field("task", "ID", "calls of this task", OPAQUE, "task:t-1", _opaque),
        Field("from", "TIME", "records from this time on", TIME_FORMS, "from:2026-11-27T10:00Z", _check_time),
        Field(
            "until",
            "TIME",
            "records before this time; a date includes that day",
            TIME_FORMS,
            "until:2026-11-27T11:00Z",
            _check_time,
        ),
        Field(
            "reads",
            "all|none",
            "records with (all) or without (none) the reads of operators",
            "all or none",
            "reads:none",
            _checker("all or none", lambda value: value.lower() in ("all", NONE), str.lower),
        ),
        Field(
            "text",
            "TEXT",
            "records with this text in their reason, path, names, or in what an EXECUTE called; in any case",
            NAMED,
            'text:"read file"',
            _named,
        ),
    )
}
"""By name, in the order of the reference."""


def find_field(name: str) -> Field:
    """
    Return the field of a name.

    :raises FilterError: there is none.
    """
    field = FIELDS.get(name.lower())
    if field is not None:
        return field
    close = get_close_matches(name.lower(), FIELDS, n=1)
    meant = f" Did you mean {close[0]}?" if close else ""
    raise FilterError(
        "filter",
        f"The filter has no field {quote(name)}.{meant}",
        f"Choose one of {', '.join(FIELDS)}; put a text with a colon in quotation marks.",
    )
