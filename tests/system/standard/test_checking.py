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


def test_tools_and_servers_are_checked_by_who_may_call_them(standard: Standard) -> None:
    """METH-050, METH-001: a resource of an MCP server is fetched by its URI; its server and tools are up then."""
    fetched = standard.result("FETCH", {"resource_id": "folder:///welcome.txt"}, by="demo")
    assert fetched["modified"] is True and "welcome" in str(fetched["content"]).lower()
    assert standard.ask("FETCH", {"resource_id": "folder:///nothing.txt"}, by="demo").status == 404
    assert standard.ask("FETCH", {"resource_id": "folder:///welcome.txt"}, by="stranger").status in (262, 403, 404)
    tool = standard.result("CHECK", {"target": "files.read_file"}, by="demo")
    assert [(each["component"], each["status"]) for each in tool["components"]] == [("tool", "up"), ("server", "up")]
    assert standard.result("CHECK", {"target": "files"}, by="demo")["status"] == "up"
    assert standard.ask("CHECK", {"target": "files.read_file"}, by="stranger").status == 404
    assert standard.ask("CHECK", {"target": "files"}, by="stranger").status == 404
    deep = standard.result("CHECK", {"target": "librarian", "depth": "deep"}, by="demo")
    assert [each["component"] for each in deep["components"]] == ["agent", "store", "server"]
