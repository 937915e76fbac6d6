"""Names of calls in lists."""

from __future__ import annotations

from agtphost.vocabulary.display_names import display_name


def test_a_request_whose_line_was_not_read_is_named_by_its_path() -> None:
    """The record of a refused frame has no method; its name began with a space, so that columns were shifted."""
    assert display_name({"method": "", "path": "/"}) == "/"
    assert display_name({"method": "QUERY", "path": "/room"}) == "QUERY /room"
    assert display_name({"event_type": "state-changed"}) == "state-changed"
