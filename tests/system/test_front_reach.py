"""The MCP front shows a client what its credential opens, says why it may miss a tool, and names none."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from tests.system.bridging import fixture
from tests.system.fronting import front, write_tokens
from tests.system.hosting import free_port, running, sample
from tests.system.test_mcp_front import HANDSHAKE, Fronted, story

CLIENTS = {"one": "demo"}
HINT = 'min_assurance = "gateway"'
SCOPE = "vault:open"
ALLOWED = f"agtp agent allow demo {SCOPE}"
HIDDEN, OPEN = "test_error_handling", "test_simple_text"
GUARDED = "test_image_content"


@pytest.fixture(scope="module")
def fronted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fronted]:
    """One server is open but for a tool, one is closed, one asks for a scope, and of one the operator said nothing."""
    port = free_port()
    certified = 'min_assurance = "certificate"'
    hidden = ("", f"[mcp.server.tools.{HIDDEN}]", certified)
    both = ("", f"[mcp.server.tools.{GUARDED}]", certified, f'scopes = ["{SCOPE}"]')
    opened = fixture("opened", HINT, *hidden, *both)
    closed = fixture("closed", 'min_assurance = "certificate"')
    guarded = fixture("guarded", HINT, f'scopes = ["{SCOPE}"]')
    more = front(port, CLIENTS) + opened + closed + guarded
    config = sample(tmp_path_factory.mktemp("reach"), append=more, eager=True)
    write_tokens(config.parent, CLIENTS)
    with running(config) as host:
        yield Fronted(host, port)


def without_ids(answer: Any) -> Any:
    """An answer without what is its own: the record, and the name that was asked for."""
    refusal = dict((answer.meta or {})["agtp/refusal"])
    assert refusal.pop("audit_id")
    refusal.pop("close_matches")
    return answer.is_error, len(answer.content), refusal


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_is_told_why_it_may_miss_a_tool(mode: str, fronted: Fronted) -> None:
    """In the instructions, whatever its list has; a tool that it may not list answers as one that there is not."""

    async def work() -> None:
        async with fronted.client("one", mode) as client:
            assert HINT in (client.instructions or "") and ALLOWED in (client.instructions or "")
            tools = {tool.name for tool in (await client.list_tools()).tools}
            assert {f"opened__{OPEN}", "files__read_file"} <= tools
            assert f"opened__{HIDDEN}" not in tools and not any(
                name.startswith(("closed__", "guarded__")) for name in tools
            )
            unknown = await client.call_tool("opened__test_error_handled", {})
            for name in (GUARDED, HIDDEN):
                hidden = await client.call_tool(f"opened__{name}", {})
                assert without_ids(hidden) == without_ids(unknown), name
            remedy = without_ids(hidden)[2]["remedy"]
            assert HINT in remedy and ALLOWED in remedy
            assert not any(HIDDEN in str(each.meta) for each in (hidden, unknown)), "neither names it"
            errors = set()
            for name in (OPEN, "nothing"):
                with pytest.raises(Exception, match="agent-unauthenticated") as caught:
                    await client.call_tool(f"closed__{name}", {})
                errors.add(str(caught.value).partition(" (Audit-ID")[0].replace(name, ""))
            (error,) = errors
            assert HINT in error

    story(work)


def test_a_server_that_shows_nothing_says_how_it_is_opened(fronted: Fronted) -> None:
    """404 for a server of certificates, as for one that there is not; both say which line opens one."""
    said = []
    with httpx.Client() as http:
        for name in ("closed", "absent"):
            answer = http.post(f"{fronted.url}/{name}", json=HANDSHAKE, headers=fronted.fields("one"))
            assert answer.status_code == 404
            facts = answer.json()["error"]["data"]["agtp"]
            assert facts.pop("audit_id")
            said.append({each: value.replace(name, "") for each, value in facts.items() if each != "status"})
    assert said[0] == said[1] and HINT in said[0]["remedy"] and ALLOWED in said[0]["remedy"]


def test_check_and_a_start_name_the_server_that_is_not_reached(fronted: Fronted) -> None:
    """One note for each, with the line to write; the servers that are reached have none."""
    notes = [note for note in fronted.host.agtp_json("check", "--json")["notes"] if "[mcp.front]" in note]
    closed = [f"[mcp.front] no tool of {name} is shown to one" for name in ("closed", "guarded")]
    assert [note.partition(":")[0] for note in notes] == closed
    assert HINT in notes[0] and notes[1].endswith(ALLOWED) and all(note in fronted.host.output for note in notes)


def test_connecting_a_server_that_is_not_reached_offers_its_line(fronted: Fronted, tmp_path: Path) -> None:
    """The line is told without --open, and written with it; the file of before is kept."""
    config = fronted.host.config
    before = config.read_text()
    words = ("client", "connect", "cursor", "--front", "--project", str(tmp_path))
    (tmp_path / ".cursor").mkdir()
    told = fronted.host.agtp(*words).stdout
    assert "No tool of closed is shown to a client with a token" in told
    assert "No tool of guarded is shown to one" in told and ALLOWED in told
    assert len(fronted.host.agtp_json(*words, "--server", "guarded", "--dry-run")["unscoped"]) == 1
    told = fronted.host.agtp(*words, "--server", "closed").stdout
    assert HINT in told and "--open" in told and config.read_text() == before
    assert "No tool" not in fronted.host.agtp(*words, "--server", "opened").stdout
    assert fronted.host.agtp(*words, "--open").returncode == 2, "no server is named"
    config.write_text(before.replace('name = "files"', 'name = "files"\nmin_assurance = "certificate"'))
    refused = fronted.host.agtp(*words, "--server", "files", "--open")
    assert refused.returncode == 2 and "by hand" in refused.stderr, "the operator has said otherwise"
    production = before.replace('profile = "development"', 'profile = "production"')
    config.write_text(production)
    assert fronted.host.agtp_json(*words, "--server", "files")["closed"] == ["files"]
    assert "wrote" in fronted.host.agtp(*words, "--server", "files", "--open").stdout
    assert config.read_text() == production.replace('name = "files"', f'name = "files"\n{HINT}')
    assert fronted.host.agtp_json(*words, "--server", "files")["closed"] == []
    config.write_text(before)


def test_the_named_command_gives_the_scope(fronted: Fronted) -> None:
    """Typed as it was told, it shows a connected client the server's tools; nothing names the scope any more."""

    async def work() -> None:
        async with fronted.client("one", "legacy") as client:
            assert ALLOWED in (client.instructions or "")
            done = await anyio.to_thread.run_sync(lambda: fronted.host.agtp(*shlex.split(ALLOWED)[1:]))
            assert done.returncode == 0, done.stderr
            tools = {tool.name for tool in (await client.list_tools()).tools}
            assert f"guarded__{OPEN}" in tools
            answer = await client.call_tool("opened__test_error_handled", {})
            assert SCOPE not in without_ids(answer)[2]["remedy"]
        async with fronted.client("one", "auto") as client:
            assert SCOPE not in (client.instructions or "")

    story(work)
    notes = [note for note in fronted.host.agtp_json("check", "--json")["notes"] if ALLOWED in note]
    assert notes == []
