"""
Servers that others wrote, asked for everything that they have, directly and behind the host and the bridge.

One program makes the same requests both ways and writes down what it hears; the two must be equal. What a server says
of the moment, of its process or at random is left out by name.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.session import ClientRequestContext
from mcp.shared.exceptions import MCPError

from tests import pypi
from tests.npm import document, node, program
from tests.programmes import length
from tests.rows import each_row
from tests.system.bridging import http_bridge, stdio
from tests.system.hosting import Host, running, sample

pytestmark = [pytest.mark.npm, pytest.mark.slow, pytest.mark.timeout(length(400, 3600))]

FOLDER = Path(tempfile.gettempdir()).resolve() / f"agtphost-project-{uuid4().hex}"
"""What these tests have on the disk; it is there while they run."""

PROJECT = str(FOLDER / "project")
"""What the client has open: the one root that it says."""

ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "echo": {"message": "as it is"},
    "get-annotated-message": {"messageType": "error", "includeImage": True},
    "get-resource-links": {"count": 3},
    "get-resource-reference": {"resourceType": "Text", "resourceId": 2},
    "get-structured-content": {"location": "Chicago"},
    "get-sum": {"a": 2, "b": 3},
    "simulate-research-query": {"topic": "transfer protocols"},
    "trigger-long-running-operation": {"duration": 0.4, "steps": 4},
    "trigger-sampling-request": {"prompt": "What is it?"},
    "trigger-sampling-request-async": {"prompt": "What is it?"},
    "trigger-url-elicitation": {"url": "https://example.com/", "message": "Look."},
    "gzip-file-as-resource": {"name": "a.gz", "data": "data:text/plain;base64,aGVsbG8=", "outputType": "resource"},
    "list_directory": {"path": PROJECT},
    "list_directory_with_sizes": {"path": PROJECT},
    "directory_tree": {"path": PROJECT},
    "read_text_file": {"path": f"{PROJECT}/note.txt"},
    "read_multiple_files": {"paths": [f"{PROJECT}/note.txt", "/etc/hostname"]},
    "read_media_file": {"path": f"{PROJECT}/note.txt"},
    "search_files": {"path": PROJECT, "pattern": "note*"},
    "write_file": {"path": f"{PROJECT}/written.txt", "content": "twice the same"},
    "create_directory": {"path": f"{PROJECT}/made"},
    "sequentialthinking": {"thought": "First.", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1},
    "open_nodes": {"names": ["nobody"]},
    "search_nodes": {"query": "nothing"},
    "calculate": {"expression": "2 * (3 + 4)"},
    "read_query": {"query": "SELECT 1 AS one"},
    "git_status": {"repo_path": PROJECT},
    "git_log": {"repo_path": PROJECT},
    "fetch": {"url": "http://127.0.0.1:1/"},
    "get_current_time": {"timezone": "Etc/UTC"},
    "convert_time": {"source_timezone": "Etc/UTC", "time": "12:30", "target_timezone": "Asia/Kolkata"},
}
"""What each tool is called with; one that is not here takes nothing, and is called with that."""

WRONGLY: Mapping[str, Any] = {"no such argument": [1]}
OTHERWISE: Mapping[str, Mapping[str, Any]] = {"trigger-long-running-operation": {"duration": 0.1, "steps": 1}}
"""What each tool is called with wrongly; to this one it is not wrong, and what it does for itself takes ten seconds."""

PROMPT_ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "args-prompt": {"city": "Berlin", "state": "BE"},
    "completable-prompt": {"department": "Engineering", "name": "Alice"},
    "resource-prompt": {"resourceType": "Text", "resourceId": "1"},
}

OF_THE_MOMENT = re.compile(
    r"\d{1,2}:\d{2}:\d{2}[^\"\\ ]*( [AP]M)?|\d{4}-\d{2}-\d{2}T[^\"\\]*|[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d{2}-\d{2}"
)
"""Times and random identifiers in what is said."""

AS_TASKS = {"simulate-research-query"}
"""Tools that this client, which makes no tasks, can call behind the host alone: that is tested elsewhere."""

ALLOWED = "list_allowed_directories"
"""The tool that tells which roots its server has looked at."""

OF_A_SESSION = "demo://resource/session/"
"""
Resources that a tool made in the client's own process.

A request of the later revision that lists cannot say its client's roots, and so shows what no client has of its own.
"""

OF_THE_PROCESS = {"get-env"}
"""Tools that tell of the process, which the host gives another environment."""


class Witness:
    """A client that answers what it is asked, and notes what it is told."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.updated: set[str] = set()

    async def sampled(
        self, _: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult:
        self.asked.append("sampling")
        return types.CreateMessageResult(role="assistant", content=types.TextContent(type="text", text="it"), model="m")

    async def elicited(self, _: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.asked.append("elicitation")
        return types.ElicitResult(action="decline")

    async def rooted(self, _: ClientRequestContext) -> types.ListRootsResult:
        # Not noted: server-everything asks by its own clock, whatever is called then. One of its tools tells them.
        return types.ListRootsResult(roots=[types.Root(uri=Path(PROJECT).as_uri())])  # type: ignore[arg-type]

    def options(self) -> dict[str, Any]:
        """For the official client."""
        return {
            "sampling_callback": self.sampled,
            "elicitation_callback": self.elicited,
            "list_roots_callback": self.rooted,
        }


def plain(value: Any) -> Any:
    """An answer without what the bridge adds, what belongs to a revision alone, and what is of the moment."""
    if hasattr(value, "model_dump"):
        value = value.model_dump(by_alias=True, mode="json", exclude_none=True)
    if isinstance(value, dict):
        dropped = ("_meta", "resultType", "ttlMs", "cacheScope", "nextCursor", "execution", "lastModified")
        blob = value.get("blob")
        if isinstance(blob, str):
            value = {**value, "blob": base64.b64decode(blob).decode("latin-1")}
        return {name: plain(item) for name, item in value.items() if name not in dropped}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return OF_THE_MOMENT.sub("#", value) if isinstance(value, str) else value


async def outcome(asking: Callable[[], Awaitable[Any]]) -> Any:
    """What is answered, or the code of the error."""
    try:
        return plain(await asking())
    except MCPError as error:
        return {"error": error.code}


def is_refusal(said: Mapping[str, Any], unmarked: str = "") -> bool:
    """
    Return whether an unknown tool is refused: by an error, by a result that is marked as one, or by one text.

    :param unmarked: the whole text of a result that is not marked; empty: there is none.
    """
    if said.get("isError") or "error" in said:
        return True
    return bool(unmarked) and said.get("content") == [{"type": "text", "text": unmarked}]


async def pages(listing: Callable[..., Awaitable[Any]], member: str) -> list[Any]:
    """A whole list."""
    found: list[Any] = []
    cursor = None
    while True:
        page = await listing(cursor=cursor)
        found += getattr(page, member)
        cursor = page.next_cursor
        if cursor is None:
            return found


async def everything(
    where: Any, mode: str, offered: Collection[str] | None = None, unmarked: str = ""
) -> dict[str, Any]:
    """
    All that a server says to all that it can be asked.

    :param offered: what it has; None: what it says of itself. The bridge has everything, whatever is behind.
    :param unmarked: the text with which it refuses an unknown tool, where it does not mark that as an error.
    """
    told: dict[str, Any] = {}
    witness = Witness()

    async with Client(where, mode=mode, **witness.options()) as mcp:  # type: ignore[arg-type]
        if offered is None:
            known = mcp.server_capabilities
            assert known is not None
            offered = {name for name in ("prompts", "resources", "logging") if getattr(known, name) is not None}
        told["offered"] = sorted(offered)
        tools = await pages(mcp.list_tools, "tools")
        told["tools"] = {each.name: plain(each) for each in tools}
        if ALLOWED in told["tools"]:
            # What is called before the server has looked at the roots is refused; a client cannot see when it has.
            for _ in range(200):
                if PROJECT in str(await mcp.call_tool(ALLOWED, {})):
                    break
        for name in sorted(each.name for each in tools):
            steps: list[Any] = []

            async def step(progress: float, total: float | None, message: str | None, steps: Any = steps) -> None:
                steps.append([progress, total, message])

            witness.asked.clear()
            arguments = dict(ARGUMENTS.get(name, {}))
            said = await outcome(lambda name=name, given=arguments: mcp.call_tool(name, given, progress_callback=step))  # type: ignore[misc]
            if name not in ARGUMENTS and said.get("isError"):
                said = "refused"  # It takes something, and host and server say in their own words that it was missing.
            told[f"call {name}"] = "told" if name in OF_THE_PROCESS | AS_TASKS else [said, steps, list(witness.asked)]
            wrong = {**WRONGLY, **OTHERWISE.get(name, {})}
            said = await outcome(lambda name=name, wrong=wrong: mcp.call_tool(name, wrong))  # type: ignore[misc]
            told[f"call {name} wrongly"] = said.get("isError", said) if name not in OF_THE_PROCESS else "told"
        said = await outcome(lambda: mcp.call_tool("no_such_tool", {}))
        told["call an unknown tool"] = "refused" if is_refusal(said, unmarked) else said
        if "prompts" in offered:
            prompts = await pages(mcp.list_prompts, "prompts")
            told["prompts"] = {each.name: plain(each) for each in prompts}
            for each in prompts:
                given = dict(PROMPT_ARGUMENTS.get(each.name, {}))
                told[f"get {each.name}"] = await outcome(
                    lambda each=each, given=given: mcp.get_prompt(each.name, given)
                )  # type: ignore[misc]
                for argument in each.arguments or []:
                    ref = types.PromptReference(name=each.name)
                    told[f"complete {argument.name} of {each.name}"] = await outcome(
                        lambda ref=ref, argument=argument, given=given: mcp.complete(  # type: ignore[misc]
                            ref, {"name": argument.name, "value": ""}, context_arguments=given
                        )
                    )
            told["get an unknown prompt"] = await outcome(lambda: mcp.get_prompt("no-such-prompt", {}))
        if "resources" in offered:
            resources = await pages(mcp.list_resources, "resources")
            told["resources"] = {str(each.uri): plain(each) for each in resources}
            for each in resources:
                uri = str(each.uri)
                told[f"read {uri}"] = await outcome(lambda uri=uri: mcp.read_resource(uri))  # type: ignore[misc]
                if mode == "legacy":
                    told[f"subscribe {uri}"] = await outcome(lambda uri=uri: mcp.subscribe_resource(uri))  # type: ignore[misc]
                    told[f"unsubscribe {uri}"] = await outcome(lambda uri=uri: mcp.unsubscribe_resource(uri))  # type: ignore[misc]
            try:
                templates = await pages(mcp.list_resource_templates, "resource_templates")
            except MCPError:
                templates = []  # A server may have resources and not know the method; the host lists none then.
            told["templates"] = {each.uri_template: plain(each) for each in templates}
            for each in templates:
                uri = re.sub(r"\{[^}]*\}", "1", each.uri_template)
                told[f"read {uri}"] = await outcome(lambda uri=uri: mcp.read_resource(uri))  # type: ignore[misc]
                for name in re.findall(r"\{([^}]*)\}", each.uri_template):
                    told[f"complete {name} of {each.uri_template}"] = await outcome(
                        lambda each=each, name=name: mcp.complete(  # type: ignore[misc]
                            types.ResourceTemplateReference(uri=each.uri_template), {"name": name, "value": "1"}
                        )
                    )
            told["read an unknown resource"] = "error" in await outcome(lambda: mcp.read_resource("no:such-resource"))
        if "logging" in offered and mode == "legacy":
            for level in ("debug", "warning", "emergency"):
                told[f"level {level}"] = await outcome(lambda level=level: mcp.set_logging_level(level))  # type: ignore[misc]
    return told


OFFERED: Mapping[str, Collection[str]] = {"time": ("prompts", "resources"), "git": (), "web": ("prompts",)}
"""What servers of the later revision have that say it without being asked: there a client may not ask."""

UNMARKED: Mapping[str, str] = {"sqlite": "Error: Missing arguments"}
"""How servers refuse an unknown tool that do not mark it; behind the host it is marked, as that of every server."""

NPM = ("filesystem", "memory", "sequential-thinking")
"""Packages of ``@modelcontextprotocol/server-`` besides ``everything``."""

PYPI = {
    "time": ("mcp-server-time", "2026.10.19"),
    "git": ("mcp-server-git", "2026.10.19"),
    "web": ("mcp-server-fetch", "2026.10.24"),
    "calculator": ("mcp-server-calculator", "0.2.1"),
}
"""Package and version by name."""

NAMES = length(("everything", "time"), ("everything", *NPM, "hello", *PYPI, "sqlite"))
"""Two in the suite, all ten with ``--programmes``."""


def command_of(name: str) -> list[str]:
    """What starts a server."""
    if name in PYPI:
        package, version = PYPI[name]
        return [str(pypi.program(package, version, package))]
    if name == "sqlite":
        # It is older than the official SDK's second version, and does not say so.
        programs = pypi.environment("mcp-server-sqlite", "mcp-server-sqlite==2025.4.25", "mcp<2")
        return [str(programs / "mcp-server-sqlite"), "--db-path", str(FOLDER / "data.db")]
    if name == "hello":
        return [str(node()), str(document("mcp-hello-world", "build/stdio.js", "1.1.2"))]
    if name == "everything":
        return [program("mcp-server-everything")]
    return [str(node()), str(document(f"@modelcontextprotocol/server-{name}", "dist/index.js", "2026.8.31"))]


@cache
def commands() -> dict[str, list[str]]:
    """The servers, by the names that they have at the host."""
    return {name: command_of(name) for name in NAMES}


@pytest.fixture(scope="module", autouse=True)
def project() -> Iterator[None]:
    """Make the directory that the client has open, and remove it after all tests, with what servers wrote."""
    Path(PROJECT, "made").mkdir(parents=True)
    Path(PROJECT, "note.txt").write_text("a note of this project")
    Path(PROJECT, "written.txt").write_text("twice the same")
    yield
    shutil.rmtree(FOLDER)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host with both, with a name and a command alone."""
    servers = "".join(
        f'\n[[mcp.server]]\nname = "{name}"\ncommand = {json.dumps(command)}\n' for name, command in commands().items()
    )
    with running(sample(tmp_path_factory.mktemp("compared"), append=servers)) as host:
        yield host


@cache
def directly(name: str, mode: str) -> Mapping[str, Any]:
    """What a client hears of the server itself, over stdio."""
    command, *rest = commands()[name]
    server = StdioServerParameters(command=command, args=rest)
    return anyio.run(everything, server, mode, OFFERED.get(name), UNMARKED.get(name, ""))


NOT_THERE = {"error": -32601}


def without_session(said: Any) -> Any:
    """A list without what is of a client's own process."""
    return {name: item for name, item in said.items() if OF_A_SESSION not in name} if isinstance(said, dict) else said


def differences(direct: Mapping[str, Any], behind: Mapping[str, Any], mode: str) -> dict[str, Any]:
    """What is not the same; in the later revision there is nothing to subscribe to, and no level to set."""
    watching = ("subscribe", "unsubscribe", "level")
    if mode != "legacy":
        direct = {name: without_session(said) for name, said in direct.items() if OF_A_SESSION not in name}
        behind = {name: without_session(said) for name, said in behind.items()}
    # The host takes subscriptions of servers that have none: nothing is ever told on them.
    direct = {name: {} if name.startswith(watching) and said == NOT_THERE else said for name, said in direct.items()}
    asked = {name for name in direct if mode == "legacy" or not name.startswith(watching)}
    names = sorted(asked | behind.keys())
    return {name: (direct.get(name), behind.get(name)) for name in names if direct.get(name) != behind.get(name)}


MODES, TRANSPORTS = ("legacy", "2026-07-28"), ("stdio", "http")
PAIRS = [(name, mode, TRANSPORTS[(at + late) % 2]) for at, name in enumerate(NAMES) for late, mode in enumerate(MODES)]
"""Shortened: each server in both eras, in each over one transport, and over both."""


@pytest.mark.release
@pytest.mark.programme
@each_row("name, mode, transport", length(PAIRS, [*product(NAMES, MODES, TRANSPORTS)]))
def test_a_client_hears_behind_host_and_bridge_what_it_hears_directly(
    host: Host, name: str, mode: str, transport: str
) -> None:
    """Every tool with its progress and questions, every prompt, resource, template, completion, level, and errors."""
    # Those that say here what they have speak the later revision, and the others none after 2025-11-25.
    direct = directly(name, mode if name in OFFERED else "legacy")
    if transport == "stdio":
        behind = anyio.run(everything, stdio(host, "--server", name), mode, direct["offered"])
    else:
        with http_bridge(host, "--server", name) as bridge:
            behind = anyio.run(everything, bridge.url, mode, direct["offered"])
    assert len(direct) > (40 if name == "everything" else 4)
    assert differences(direct, behind, mode) == {}


def test_control_a_difference_is_found() -> None:
    """The control: an answer that differs, and one that is missing."""
    assert differences({"a": 1, "b": 2}, {"a": 1}, "legacy") == {"b": (2, None)}
    assert differences({"a": {"error": -32602}}, {"a": {"isError": True}}, "legacy")


def test_control_a_text_is_a_refusal_of_the_server_alone_that_has_no_other() -> None:
    """The control: no other server may answer so, and that one with nothing else."""
    text = UNMARKED["sqlite"]
    said = {"content": [{"type": "text", "text": text}], "isError": False}
    assert is_refusal(said, text) and not is_refusal(said)
    longer = {"content": [{"type": "text", "text": f"{text}, or not"}], "isError": False}
    twice = {"content": said["content"] * 2}  # type: ignore[operator]
    assert not any(is_refusal(each, text) for each in (longer, twice, {"content": []}, {}))
    assert is_refusal({"error": -32602}) and is_refusal({"isError": True, "content": []})
