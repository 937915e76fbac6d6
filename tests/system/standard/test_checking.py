"""CHECK over TLS: methods v01 section 8.9."""

from __future__ import annotations

from agtphost.methods.standard.table import STANDARD
from tests.system.standard.hosted import Standard


def test_every_method_is_in_the_greeting_that_is_answered(standard: Standard) -> None:
    """METH-051, METH-066: with ``"*"`` none of the fifty is 405 or 459 over the wire."""
    statuses = {name: standard.ask(name, {}).status for name in STANDARD}
    assert not {name for name, status in statuses.items() if status in (405, 459, 500)}, statuses


def test_an_agent_is_checked(standard: Standard) -> None:
    """METH-050: how an agent is, by its name."""
    found = standard.result("CHECK", {"target": "librarian", "depth": "shallow"})
    assert found["status"] == "up"
    assert [each["component"] for each in found["components"]] == ["agent"]
    assert standard.ask("CHECK", {"target": "nobody"}).status == 404
