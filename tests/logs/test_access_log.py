"""What an access line of a call tells: who called, and for which person, as the record says it."""

from __future__ import annotations

from collections.abc import Mapping

from agtphost.logs.access_log import watch_calls
from tests.metrics.samples import group, record


def lines_of(person: str, extra: Mapping[str, str] | None = None, caller: str = "desk") -> Mapping[str, object]:
    """The members of the line of one call."""
    written: list[Mapping[str, object]] = []
    seen = record(caller=caller, person=person)
    seen = seen._replace(members={**seen.members, "extra": extra or {}})
    steps = watch_calls(written.append)(group(seen))
    assert steps is None or list(steps) == []
    (line,) = written
    return line


def test_the_line_names_the_person_whom_an_identity_provider_named() -> None:
    """As bounded as everything that others choose; empty where no provider named one."""
    assert lines_of("ada@example.test")["person"] == "ada@example.test"
    assert lines_of("")["person"] == ""
    assert len(str(lines_of("x" * 5000)["person"])) == 256


def test_the_line_names_a_carrier_other_than_tls() -> None:
    """As the record does; the lines of calls over TLS are as before."""
    assert lines_of("", {"carrier": "quic"})["carrier"] == "quic"
    assert "carrier" not in lines_of("")


def test_the_line_has_the_bare_label_of_an_agent_that_shares_it() -> None:
    """A program that filters by the label goes on to find the agent once a second one has it; lists show digits."""
    assert lines_of("", caller="desk (0123abcd...)")["caller"] == "desk"
