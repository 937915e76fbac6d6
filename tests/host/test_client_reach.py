"""Which clients of a surface reach no tool of a server, or no relayed agent: what ``agtp check`` and a start say."""

from __future__ import annotations

import tempfile
from pathlib import Path

from agtphost.config.tool_requirements import hides_tools, opens_tool_to
from agtphost.host.client_reach import find_obstacles
from agtphost.host.host_loader import LoadedHost, load_host
from agtphost.identity.peer import Assurance
from tests.host.hosts import reloaded
from tests.rows import each_row
from tests.system.fronting import front, write_tokens
from tests.system.hosting import sample

CLIENTS = {"one": "demo", "two": "demo"}
CLOSED = "min_assurance = 'certificate'"
NOTE = (
    '[mcp.front] no tool of files is shown to one, two: a token gives the assurance "gateway", and these tools '
    'require a client certificate; write min_assurance = "gateway" in its [[mcp.server]], or in '
    "[mcp.server.tools.NAME] for one tool"
)
ANONYMOUS = (
    "[gateway] no tool of files is shown to anonymous clients: clients are not authenticated; give them a token of "
    "[[http.client]]"
)
GRANT = "\n[[grant]]\nagent = 'demo'\nallow = {}\n"


TOOL = "\n[mcp.server.tools.read_file]\n{}\n"


def host_of(folder: Path, server: str, tool: str = "", more: str = "") -> LoadedHost:
    """
    The sample host with a front of two clients.

    :param server: lines of its ``[[mcp.server]]``.
    :param tool: a table of one of its tools.
    """
    file = sample(Path(tempfile.mkdtemp(dir=folder)))
    text, entry = file.read_text(), "timeout = 30\n"
    assert text.count(entry) == 1
    table, rest = text.split(entry)[0], text.split(entry)[1].split("\n\n", 1)
    file.write_text(f"{table}{entry}{rest[0]}\n{server}\n{tool}" + front(8931, CLIENTS) + more)
    write_tokens(file.parent, CLIENTS)
    write_tokens(file.parent, {"odd": "librarian", "more": ""})
    return load_host(reloaded(file))


@each_row(
    "server, tool, more, expected",
    [
        ("", "", "", ""),
        (CLOSED, "", "", NOTE),
        (CLOSED, "", GRANT.format("['files.*']"), NOTE),
        (CLOSED, "", GRANT.format("['QUERY']"), ""),
        (CLOSED, TOOL.format("min_assurance = 'gateway'"), "", ""),
        (CLOSED, TOOL.format("min_assurance = 'gateway'\nenabled = false"), "", NOTE),
        (
            "scopes = ['a:b']",
            "",
            "",
            "[mcp.front] no tool of files is shown to one, two: calls are made as demo, without",
        ),
        (
            f"scopes = ['a:b']\n{CLOSED}",
            "",
            "",
            f"{NOTE}; also, calls are made as demo, without the scope a:b; an operator can give it: "
            "agtp agent allow demo a:b",
        ),
        (
            "",
            "",
            "\n[[http.client]]\nname = 'odd'\ntoken = 'file:odd.token'\nagent = 'demo'\nscopes = ['booking:*']\n",
            "[mcp.front] no tool of files is shown to odd: calls are made as demo, without the scope "
            "mcp:tools:execute; add it to scopes of its [[http.client]]",
        ),
        ("", TOOL.format("min_assurance = 'certificate'"), GRANT.format("['files.read_file']"), NOTE),
        ("", TOOL.format("min_assurance = 'certificate'"), GRANT.format("['files.read*']"), ""),
        ("", TOOL.format("min_assurance = 'certificate'"), GRANT.format("['files.list_files']"), ""),
        (CLOSED, "", GRANT.format("['files.resource:*', 'files.prompt:*']"), ""),
        (
            "",
            TOOL.format("enabled = false"),
            GRANT.format("['files.read_file']"),
            "[mcp.front] no tool of files is shown to one, two: [[grant]] gives demo tools of it that are not enabled",
        ),
        (
            "",
            "",
            "\n[[http.client]]\nname = 'odd'\ntoken = 'file:odd.token'\nagent = 'librarian'\nscopes = ['a:b']\n",
            "[mcp.front] no tool of files is shown to odd: its [[http.client]] claims a:b, which the document of "
            "librarian does not declare, so that every call is refused; leave it out of scopes there, or an operator "
            "can give it: agtp agent allow librarian a:b",
        ),
        ("", "", "\n[gateway]\nlisten = 'tcp:8932:interface=127.0.0.1'\nagent = 'demo'\n", ANONYMOUS),
    ],
)
def test_clients_that_reach_no_tool_are_told(server: str, tool: str, more: str, expected: str, tmp_path: Path) -> None:
    """Each server that a client is given has a tool for it, or a sentence says which line gives it one."""
    loaded = host_of(tmp_path, server, tool, more)
    found = [str(each) for each in find_obstacles(loaded.config, loaded.directory)]
    assert len(found) == bool(expected), found
    assert all(told.startswith(expected) for told in found), found


RELAY = """
[[a2a.agent]]
name = "whole"
url = "http://127.0.0.1:9"
{}

[a2a.front]
listen = "tcp:8933:interface=127.0.0.1"
{}

[[a2a.front.agent]]
name = "helper"
upstream = "whole"
"""
CLOSED_AGENT = (
    '[a2a.front] no call of agent whole is open to one, two: a token gives the assurance "gateway", and this agent '
    'requires a client certificate; write min_assurance = "gateway" in its [[a2a.agent]]'
)
OF_TOKENS = "[a2a.front] no call of agent whole is open to clients with a token of [a2a.front]"
UNSCOPED = "calls are made as demo, without the scope a2a:messages:send; an operator can give it: agtp agent allow"
HELD, PROVEN = 'scopes = ["mcp:tools:execute"]', 'min_assurance = "gateway"'


@each_row(
    "upstream, surface, expected",
    [
        ("", "", f"{CLOSED_AGENT}; also, {UNSCOPED}"),
        (HELD, "", CLOSED_AGENT),
        (PROVEN, "", f"[a2a.front] no call of agent whole is open to one, two: {UNSCOPED}"),
        (f"{HELD}\n{PROVEN}", "", ""),
        (
            f"{HELD}\n{PROVEN}",
            'agent_id = "demo"',
            "[a2a.front] no call of agent whole is open to anonymous clients: clients are not authenticated",
        ),
        (
            f"{HELD}\n{PROVEN}",
            'agent_id = "demo"\ntokens = ["file:more.token"]\nscopes = ["a:b"]',
            f"{OF_TOKENS}: [a2a.front] claims a:b, which the document of demo does not declare,",
        ),
        (
            f"{HELD}\n{PROVEN}",
            'agent_id = "demo"\ntokens = ["file:more.token"]\nscopes = ["booking:*"]',
            f"{OF_TOKENS}: calls are made as demo, without the scope mcp:tools:execute; add it to scopes of [a2a.front",
        ),
    ],
)
def test_clients_that_cannot_call_a_relayed_agent_are_told(
    upstream: str, surface: str, expected: str, tmp_path: Path
) -> None:
    """The A2A front relays to an agent that some client of it may call, or a sentence says which line opens it."""
    loaded = host_of(tmp_path, "", more=RELAY.format(upstream, surface))
    found = [str(each) for each in find_obstacles(loaded.config, loaded.directory)]
    assert len(found) == bool(expected), found
    assert all(told.startswith(expected) for told in found), found


def test_only_tools_that_a_token_does_not_open_are_hidden(tmp_path: Path) -> None:
    """What clients are hinted at depends on whether any tool is for certificates, and not on which."""
    for server, tool, hidden, opened in (
        ("", "", False, True),
        (CLOSED, "", True, False),
        ("", TOOL.format("min_assurance = 'certificate'"), True, True),
    ):
        config = host_of(tmp_path, server, tool).config
        assert hides_tools(config, Assurance.GATEWAY) is hidden
        assert hides_tools(config, Assurance.CERTIFICATE) is False
        assert opens_tool_to(config, config.mcp.server[0], Assurance.GATEWAY) is opened
