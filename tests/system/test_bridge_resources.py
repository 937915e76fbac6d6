"""Resources of several servers through the bridge, read from whoever listed or linked them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests import forking
from tests.rows import each_row
from tests.system.bridging import http_bridge, stdio
from tests.system.hosting import Host, running, sample

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

FILE = str(Path(__file__).with_name("noted_server.py"))


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """Two servers with resources of the same names, beside the sample's own."""
    servers = "".join(
        f'\n[[mcp.server]]\nname = "{name}"\ncommand = {json.dumps(forking.mcp_server(FILE, name))}\n'
        for name in ("left", "right")
    )
    with running(sample(tmp_path_factory.mktemp("resources"), append=servers)) as host:
        yield host


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_each_resource_is_read_from_whoever_showed_it(host: Host, mode: str) -> None:
    """What two servers list has two addresses, templates too; what a tool linked is read from the tool's server."""

    async def story() -> None:
        async with Client(stdio(host), mode=mode) as mcp:  # type: ignore[arg-type]

            async def read(uri: str) -> str:
                (content,) = (await mcp.read_resource(uri)).contents
                assert str(content.uri) == uri
                return str(content.text)  # type: ignore[union-attr]

            listed = {str(each.uri) for each in (await mcp.list_resources()).resources}
            assert {"note://left/own", "note://right/own", "note://shared"} <= listed
            shared = sorted(uri for uri in listed if uri.endswith("note://shared"))
            assert len(shared) == 2
            assert {await read(uri) for uri in shared} == {"shared of left", "shared of right"}
            assert await read("note://right/own") == "own of right"
            templates = [each.uri_template for each in (await mcp.list_resource_templates()).resource_templates]
            numbered = [text.replace("{number}", "3") for text in templates if "{number}" in text]
            assert {await read(numbered[0]), await read(numbered[1])} == {"3 of left", "3 of right"}
            for name in ("right", "left"):
                (linked,) = (await mcp.call_tool(f"{name}__link", {})).content
                assert await read(str(linked.uri)) == f"7 of {name}"  # type: ignore[union-attr]

    anyio.run(story)


@pytest.mark.parametrize(("mode", "code"), [("legacy", -32002), ("2026-07-28", -32602)])
def test_an_unknown_resource_is_not_found_and_close_matches_can_be_called(host: Host, mode: str, code: int) -> None:
    """As MCP has it in each revision; and what is proposed in place of a wrong name is a name of this bridge."""

    async def story() -> None:
        async with Client(stdio(host), mode=mode) as mcp:  # type: ignore[arg-type]
            with pytest.raises(MCPError) as refused:
                await mcp.read_resource("note:nothing-like-it")
            assert refused.value.error.code == code
            tools = {tool.name for tool in (await mcp.list_tools()).tools}
            unknown = await mcp.call_tool("left__lonk", {})
            assert unknown.is_error and unknown.meta is not None
            close = unknown.meta["agtp/refusal"]["close_matches"]
            assert close and set(close) <= tools
            assert "left__link" in close and "left.link" not in str(unknown.content)

    anyio.run(story)


@each_row("mode", ["legacy", "2026-07-28"])
@each_row("transport", ["stdio", "http"])
def test_completions_come_from_whoever_showed_the_prompt_or_the_template(host: Host, transport: str, mode: str) -> None:
    """
    A template that two servers have is completed by each at its own address; the server sees its own template.

    A prompt is completed by the server in its name, and a resource that is no template by whoever listed it. What was
    chosen for other arguments goes along.
    """

    async def story(where: Any) -> None:
        async with Client(where, mode=mode) as mcp:  # type: ignore[arg-type]

            async def completed(
                ref: types.PromptReference | types.ResourceTemplateReference, name: str, **chosen: str
            ) -> list[str]:
                found = await mcp.complete(ref, {"name": name, "value": "3"}, context_arguments=chosen or None)
                return found.completion.values

            templates = [each.uri_template for each in (await mcp.list_resource_templates()).resource_templates]
            numbered = [text for text in templates if text.endswith("note://{number}/numbered")]
            assert sorted(text.startswith("agtp-mcp:") for text in numbered) == [False, True]
            said = [await completed(types.ResourceTemplateReference(uri=each), "number") for each in numbered]
            about = "3: number of note://{number}/numbered at"
            assert sorted(said) == [[f"{about} left"], [f"{about} right"]]
            for address, values in zip(numbered, said, strict=True):
                named = address.split(":")[1] if address.startswith("agtp-mcp:") else values[0].rpartition(" ")[2]
                assert values == [f"{about} {named}"]
            for name in ("left", "right"):
                prompt = types.PromptReference(name=f"{name}__note")
                expected = [f"3: number of note at {name}", "topic=trees"]
                assert await completed(prompt, "number", topic="trees") == expected
            shared = {str(each.uri) for each in (await mcp.list_resources()).resources if "note://shared" in each.uri}
            ends = [await completed(types.ResourceTemplateReference(uri=each), "n") for each in sorted(shared)]
            assert sorted(end for (end,) in ends) == [
                "3: n of note://shared at left",
                "3: n of note://shared at right",
            ]

    if transport == "stdio":
        anyio.run(story, stdio(host))
        return
    with http_bridge(host) as bridge:
        anyio.run(story, bridge.url)


def test_a_bridge_that_listed_nothing_yet_completes_what_an_address_names(host: Host) -> None:
    """An address of the bridge's own says whose it is, to a bridge that was started anew as well."""

    async def story() -> list[str]:
        async with Client(stdio(host), mode="legacy") as mcp:
            address = "agtp-mcp:right:note://{number}/numbered"
            found = await mcp.complete(types.ResourceTemplateReference(uri=address), {"name": "number", "value": "9"})
            return found.completion.values

    assert anyio.run(story) == ["9: number of note://{number}/numbered at right"]
