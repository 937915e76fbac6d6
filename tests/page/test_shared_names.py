"""Two agents of one name can be told apart in each list of the page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.page.browsing import Page
from tests.page.page_in_memory import PageInMemory


@pytest.mark.parametrize("path", ["/", "/agents", "/calls"])
def test_agents_of_one_name_are_shown_with_the_beginnings_of_their_ids(path: str) -> None:
    """An operator who stops one of them must not stop the other; an agent with a name of its own is shown by that."""
    page = PageInMemory()
    agents = [page.host.agent(name) for name in ("twin", "other", "single")]
    page.host.directory.replace(replace(agents[1].agent, name="twin"))
    page.host.endpoint("QUERY", "/orders", lambda context: {"orders": []})
    page.open()
    for agent in agents:
        page.host.call("QUERY", "/orders", caller=agent)
    status, body = page.get(path)
    assert status == 200, body
    said = [text.strip("\u2068\u2069") for text in Page(body).said]
    for agent in agents[:2]:
        assert f"twin ({agent.agent_id[:8]}...)" in said
    assert "single" in said and "twin" not in said
