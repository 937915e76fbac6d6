"""How many functions one tool call goes through, from its gates to its record."""

from __future__ import annotations

from typing import Any

import pytest

from agtphost.adapters.mcp.stdio import StdioLink
from agtphost.vocabulary import jsontext
from tests.bench.call_bounds import FRONT_TOOL_CALL, GATEWAY_TOOL_CALL, TOOL_CALL, TOOL_CALL_ALONE
from tests.bench.front_path import FrontPath
from tests.bench.gateway_path import GatewayPath
from tests.bench.tool_path import ToolPath


@pytest.mark.parametrize("stateless", [False, True])
def test_a_tool_call_is_short(stateless: bool) -> None:
    """What takes more has to say for what, in either era; so has what a call takes that is alone."""
    with ToolPath(stateless=stateless) as path:
        assert 300 < path.function_calls() < TOOL_CALL
        assert path.function_calls(at_once=1) < TOOL_CALL_ALONE


def test_control_work_that_is_done_twice_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that reads back what it sends, a few times, is beyond the bound."""
    send = StdioLink.send

    def doubting(link: StdioLink, message: Any, headers: Any = ()) -> None:
        for _ in range(4):
            assert jsontext.decode(jsontext.encode(message)) == message
        send(link, message, headers)

    monkeypatch.setattr(StdioLink, "send", doubting)
    with ToolPath() as path:
        assert path.function_calls() > TOOL_CALL


def test_a_tool_is_called_through_the_front_by_the_hosts_own_name_without_a_listing() -> None:
    """``files.list_files`` costs what ``files__list_files`` does: one call, one record."""
    counted = []
    for name in ("files__list_files", "files.list_files"):
        with FrontPath(name=name) as path:
            counted.append(path.function_calls(times=2, at_once=2))
    assert counted[1] < 1.02 * counted[0]


@pytest.mark.parametrize("session", [False, True])
def test_a_tool_call_through_the_front_is_short(session: bool) -> None:
    """From the octets of the HTTP request to those of its answer, in both eras."""
    with FrontPath(session=session) as path:
        assert 500 < path.function_calls(times=4) < FRONT_TOOL_CALL[session]


def test_a_tool_call_through_the_gateway_is_short() -> None:
    """From the octets of the HTTP request to those of its answer, by the path of the tool."""
    with GatewayPath() as path:
        assert 400 < path.function_calls(times=4) < GATEWAY_TOOL_CALL
