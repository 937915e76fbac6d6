"""``[mcp.front] search = true``: two tools in place of all, for each caller over what it alone may call."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.system.bridging import fixture
from tests.system.fronting import front, write_tokens
from tests.system.hosting import free_port, running, sample
from tests.system.mcp_sessions import ERAS
from tests.system.test_mcp_front import Fronted, story

CLIENTS = {"one": "demo", "two": "demo"}
NARROW = ('token = "file:two.token"', 'token = "file:two.token"\nscopes = ["booking:room"]')

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def fronted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fronted]:
    """The second key claims no more than one scope."""
    port = free_port()
    section = front(port, CLIENTS, "search = true")
    assert NARROW[0] in section, section
    servers = fixture("fixture", 'min_assurance = "gateway"')
    config = sample(tmp_path_factory.mktemp("front"), append=section.replace(*NARROW) + servers)
    write_tokens(config.parent, CLIENTS)
    with running(config) as host:
        yield Fronted(host, port)


@pytest.mark.parametrize("era", ERAS)
def test_each_caller_finds_what_it_may_call(era: str, fronted: Fronted) -> None:
    """One finds the tool and calls it; the other, whose key claims another scope, finds none and is refused."""

    async def work() -> None:
        async with fronted.client("one", era) as one, fronted.client("two", era) as two:
            for client in (one, two):
                assert [tool.name for tool in (await client.list_tools()).tools] == ["search_tools", "call_tool"]
            # A call waits for a server that is still starting, and a search does not.
            asked = {"name": "fixture__test_simple_text", "arguments": {}}
            called = await one.call_tool("call_tool", asked)
            assert not called.is_error and called.meta is not None and called.meta["agtp/audit-id"], called
            found = await one.call_tool("search_tools", {"query": "a simple text"})
            assert found.structured_content is not None and found.meta is not None, found
            assert "fixture__test_simple_text" in [tool["name"] for tool in found.structured_content["tools"]]
            assert found.meta["agtp/audit-id"]
            hidden = await two.call_tool("search_tools", {"query": "a simple text", "limit": 25})
            assert hidden.structured_content is not None, hidden
            assert [t["name"] for t in hidden.structured_content["tools"] if "__" in t["name"]] == []
            with pytest.raises(Exception, match=r"(?i)scope"):
                await two.call_tool("call_tool", asked)

    story(work)
