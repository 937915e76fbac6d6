"""A host with a page and something in every view: answered and refused calls, an approval, an escalation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agtphost.client.sync import Client
from tests.page.browsing import Site, served
from tests.page.test_inbox import TOOLS, escalated

APPROVAL = """
[mcp.server.tools.delete_note]
approval = "required"
"""

RIGHT_TO_LEFT = "task-\u05e9\u05dc\u05d5\u05dd"
"""A Task-ID in another script; opaque identifiers are ASCII, so it is refused."""


def call_much(site: Site, rounds: int = 6) -> None:
    """Call tools and endpoints as the sample agent, with success and without."""
    demo = site.host.state / "agents" / "demo"
    with Client(trust=site.trust, cert=demo / "agent.pem", key=demo / "agent.key") as client:
        for number in range(rounds):
            client.call(site.host.uri, "QUERY", "/library", {"isbn": "9780141439518"})
            client.call(site.host.uri, "QUERY", f"/nothing-{number}", {})
            client.call(site.host.uri, "DESCRIBE", "/", {})
            for tool in ("list_files", "read_file", "no_such_tool"):
                said = {"tool": f"files.{tool}", "arguments": {}}
                given = {"action": "mcp.tools.call", "payload_type": TOOLS, "payload": said}
                client.call(site.host.uri, "EXECUTE", "/", given, headers=[("Task-ID", f"task-{number % 2}")])


@contextmanager
def busy(folder: Path) -> Iterator[Site]:
    """Serve the host."""
    with served(folder, eager=True) as site:
        call_much(site)
        escalated(site, "task-of-views")
        yield site
