"""``search_tools`` over what a host has, in memory: the best tools of one server, and questions that are none."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_twisted

from agtphost.client.mcp.endpoints import EndpointCall
from agtphost.client.mcp.tool_search import LONGEST_QUERY, MOST_RESULTS, ToolSearch
from agtphost.client.reply import Reply, reply_of
from tests.methods.hosts import MethodHost, Toolbox
from tests.methods.test_candidates import ME, endpoint

MANY = [endpoint("EXECUTE", "/mcp/many", "Reads a file.", name=f"many.read_file_{n}") for n in range(120)]
FEW = endpoint("EXECUTE", "/mcp/few", "Reads a file, or something else, when asked in time.", name="few.read")


class Link:
    """The way to a host in memory."""

    def __init__(self) -> None:
        self._host = MethodHost(adapter=Toolbox(*MANY, FEW))

    async def call(self, call: EndpointCall) -> Reply:
        """Ask it."""
        response = self._host.ask(call.method, call.path, dict(call.input), certificate=ME)
        return reply_of(response, line=b"", body=b"", agent_id=None, interims=0)


@pytest.fixture(scope="module")
def link() -> Any:
    """One for what changes nothing."""
    return Link()


async def search_tools(link: Any, server: str | None, **arguments: Any) -> dict[str, Any]:
    """The answer of ``search_tools``."""
    search = ToolSearch(link, lambda name: name, server, None)
    return await search.search({"query": "read a file", **arguments}, "session")


@pytest_twisted.ensureDeferred
async def test_the_tools_of_one_server_are_found_among_many_better_ones(link: Any) -> None:
    """A hundred of another server rank before it; the control: where all servers are, they do."""
    tools = (await search_tools(link, "few"))["structuredContent"]["tools"]
    assert [tool["name"] for tool in tools] == ["few.read"]
    tools = (await search_tools(link, None, limit=MOST_RESULTS))["structuredContent"]["tools"]
    assert len(tools) == MOST_RESULTS and "few.read" not in [tool["name"] for tool in tools]


@pytest_twisted.ensureDeferred
async def test_a_question_that_is_none_is_told_by_its_own_name(link: Any) -> None:
    """What a model sent is what it reads about."""
    for query in (None, 5, "", "x" * (LONGEST_QUERY + 1)):
        answer = await search_tools(link, None, query=query)
        assert answer["isError"] and answer["content"][0]["text"].startswith("query is not"), query
    assert not (await search_tools(link, None, query="x" * LONGEST_QUERY))["isError"]
