"""What lists say of tools can be called as listed: of plugin adapters, MCP servers and A2A agents, on every surface."""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest
from jsonschema import Draft202012Validator
from mcp import Client as McpClient
from mcp.client.streamable_http import streamable_http_client

from agtphost.audit.observed_records import members_of
from agtphost.client.mcp import governed_session
from agtphost.client.mcp.names import shown_name
from agtphost.client.mcp.tool_search import ToolSearch
from agtphost.client.sync import Client
from agtphost.client.tools import execute_listed
from agtphost.vocabulary.replay import build_decision_query
from agtphost.vocabulary.tool_paths import tool_path
from tests.adapters.a2a.test_sdk import SCRIPT
from tests.adapters.peers import python
from tests.page.browsing import SECTION, Site
from tests.system.gateways import TOKEN, ask, with_gateway
from tests.system.hosting import Host, free_port, running, until

PLUGINS = '''
from zope.interface import implementer

from agtphost.contract.binding import Binding, Resolution
from agtphost.contract.schemas import compile_schema
from agtphost.errors import Refusal
from agtphost.iagtp import IHandler, IPayloadAdapter
from agtphost.vocabulary.reasons import ForeignReason
from agtphost.vocabulary.status import Status

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["titles"],
    "properties": {"titles": {"type": "array", "items": {"type": "string"}}},
}


@implementer(IHandler)
class Sorting:
    kind = "sorting"

    def handle(self, context):
        return {"titles": sorted(context.input["titles"])}


class Carrying:
    """One tool, SHELF.sort; a subclass says where its payload has the arguments."""

    details = {}

    def __init__(self, settings):
        self.payload_types = frozenset({f"application/vnd.{self.name}+json"})
        self.binding = Binding(
            method="EXECUTE",
            path=self.path if hasattr(self, "path") else "/",
            name=f"{self.name}.sort",
            handler=Sorting(),
            tier="B",
            description=f"Sorts the titles of the {self.name} catalogue.",
            input_schema=compile_schema(SCHEMA, role="input"),
            state_changing=False,
            details=self.details,
        )

    def resolve(self, action, payload, server):
        try:
            assert action == f"{self.name}.lists.sort"
            return Resolution(binding=self.binding, input=self.arguments(payload))
        except (AssertionError, KeyError) as error:
            raise Refusal(ForeignReason("unknown-action", Status.UNPROCESSABLE), f"No: {error!r}.", remedy="No.")

    def arguments(self, payload):
        return payload

    def tools(self):
        return [self.binding]

    def entries(self):
        return [{"protocol": self.name.upper(), "method": "EXECUTE", "path": "/", "name": self.name}]


class Named(Carrying):
    def hosted_protocols(self):
        return self.entries()

    def call_of(self, binding, arguments):
        return {
            "action": f"{self.name}.lists.sort",
            "payload_type": f"application/vnd.{self.name}+json",
            "payload": self.payload(arguments),
        }


@implementer(IPayloadAdapter)
class Whole(Named):
    name = "whole"

    def payload(self, arguments):
        return {"titles": arguments["titles"]}


@implementer(IPayloadAdapter)
class Member(Named):
    name = "member"

    def payload(self, arguments):
        return {"operation": "sort", "input": arguments}

    def arguments(self, payload):
        assert payload["operation"] == "sort"
        return payload["input"]


@implementer(IPayloadAdapter)
class Merged(Named):
    name = "merged"

    def payload(self, arguments):
        return {"operation": "sort", **arguments}

    def arguments(self, payload):
        assert payload["operation"] == "sort"
        return {name: value for name, value in payload.items() if name != "operation"}


@implementer(IPayloadAdapter)
class Older(Carrying):
    name = "older"
    details = {"action": "older.lists.sort"}

    def hosted(self):
        return self.entries()


@implementer(IPayloadAdapter)
class Silent(Carrying):
    name = "silent"


@implementer(IPayloadAdapter)
class Opaque(Named):
    name = "opaque"

    def payload(self, arguments):
        return ",".join(arguments["titles"])


@implementer(IPayloadAdapter)
class Mistaken(Whole):
    name = "mistaken"

    def call_of(self, binding, arguments):
        return {**super().call_of(binding, arguments), "action": "mistaken.list.sort"}


@implementer(IPayloadAdapter)
class Astray(Whole):
    name = "astray"
    path = "/astray"
'''

CALLABLE = ("whole", "member", "merged", "older")
UNCALLABLE = {
    "silent": "give the adapter a method call_of(binding, arguments)",
    "opaque": "return them as the payload, or as one member of it",
    "mistaken": "name the action that resolve takes in call_of",
    "astray": 'write path="/" in its Binding',
}

AGENT = """
[[a2a.agent]]
name = "helper"
url = "http://127.0.0.1:{upstream}"
scopes = ["mcp:tools:execute"]
timeout = 10
min_assurance = "gateway"

[registry]
"""

TITLES = {"titles": ["Persuasion", "Emma"]}
MESSAGE = {"message": {"parts": [{"text": "echo as listed"}]}}
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    **{f"{name}.sort": TITLES for name in CALLABLE},
    "files.list_files": {},
    "helper.a2a.message.send": MESSAGE,
    "helper.a2a.tasks.list": {},
    "helper.a2a.card.get": {},
}
"""One call of each kind of tool: what is listed is called with these."""


@pytest.fixture(scope="module")
def page() -> list[int]:
    """The port of the page, once the host is there."""
    return []


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, page: list[int]) -> Iterator[tuple[Host, int]]:
    """The sample host with eight plugin adapters, its MCP server, an A2A agent of the official SDK, and a gateway."""
    directory = tmp_path_factory.mktemp("listed")
    packages = directory / "packages"
    made = packages / "carriers-1.0.dist-info"
    made.mkdir(parents=True)
    (packages / "carriers.py").write_text(PLUGINS)
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: carriers\nVersion: 1.0\n")
    names = [*CALLABLE, *UNCALLABLE]
    points = "".join(f"{name} = carriers:{name.capitalize()}\n" for name in names)
    (made / "entry_points.txt").write_text(f"[agtphost.plugins]\n{points}")
    adapters = "".join(f'\n[[adapter]]\nplugin = "{name}"\n' for name in names)
    with python(SCRIPT, "jsonrpc") as upstream:
        edit = [("timeout = 30\n", 'timeout = 30\nmin_assurance = "gateway"\n')]
        config, port = with_gateway(directory, eager=True, edit=edit, append=AGENT.format(upstream=upstream) + adapters)
        page.append(free_port())
        more = f'\n[mcp.front]\nlisten = "tcp:{port}:interface=127.0.0.1"\n{SECTION.format(port=page[0], more="")}'
        config.write_text(config.read_text() + more)
        with running(config, environ={"PYTHONPATH": str(packages)}) as host:
            with asking(host) as client:
                until(lambda: {"files.list_files", "helper.a2a.message.send"} <= {*tools(client, host.uri)})
            yield host, port


@pytest.fixture(scope="module")
def host(served: tuple[Host, int]) -> Host:
    return served[0]


def asking(host: Host) -> Client:
    demo = host.state / "agents" / "demo"
    return Client(trust=host.state / "ca.pem", cert=demo / "agent.pem", key=demo / "agent.key")


def tools(client: Client, uri: str) -> dict[str, dict[str, Any]]:
    """The entries of ``DISCOVER /tools`` by name."""
    return {each["name"]: each for each in client.call(uri, "DISCOVER", "/tools").result}


def succeeds(client: Client, host: Host, where: str, path: str, parameters: Mapping[str, Any]) -> None:
    """One EXECUTE, which is answered by what was meant."""
    reply = client.call(host.uri, "EXECUTE", path, parameters)
    assert reply.status == 200, f"{where}: {parameters}: {reply.body!r}"
    if "titles" in json.dumps(parameters):
        assert reply.result == {"titles": ["Emma", "Persuasion"]}, f"{where}: {reply.result}"


def test_what_discover_lists_is_called_as_listed(host: Host) -> None:
    """DISCOVER /tools, /methods and a search: the same tools, each called with what its entry says."""
    with asking(host) as client:
        listed = tools(client, host.uri)
        methods = {
            each["tool"]: each for each in client.call(host.uri, "DISCOVER", "/methods").result if "tool" in each
        }
        assert {*listed} == {*methods} >= {*ARGUMENTS}
        assert not {name for name in listed if name.partition(".")[0] in UNCALLABLE}
        for name, arguments in ARGUMENTS.items():
            for where, entry in (("tools", listed[name]), ("methods", {**methods[name], "name": name})):
                succeeds(client, host, f"{where} {name}", entry["path"], execute_listed(entry, arguments))
        for name in CALLABLE:
            asked = {"criteria": f"sorts the titles of the {name} catalogue", "filter": {"kinds": ["tool"]}}
            found = {each["name"]: each for each in client.call(host.uri, "DISCOVER", "/", asked).result["results"]}
            entry = found[f"{name}.sort"]
            succeeds(client, host, f"search {name}", entry["path"], execute_listed(entry, TITLES))


def test_what_a_record_of_a_tool_says_of_today(host: Host) -> None:
    """`agtp explain` asks the gates of today for each tool of a plugin, wherever its payload has the arguments."""
    with asking(host) as client:
        for name in CALLABLE:
            entry = tools(client, host.uri)[f"{name}.sort"]
            called = client.call(host.uri, "EXECUTE", entry["path"], execute_listed(entry, TITLES))
            found = client.call(host.uri, "INSPECT", "/", {"target": "audit", "audit_id": called.audit_id}).result
            question = {"target": "decision", **(build_decision_query(members_of(found["jws"])) or {})}
            assert client.call(host.uri, "INSPECT", "/", question).result["allowed"] is True


def test_what_is_not_callable_is_not_listed_and_the_log_says_why(host: Host) -> None:
    """Once for each, however often lists are asked for; the log says what to write."""
    with asking(host) as client:
        for _ in range(3):
            tools(client, host.uri)
    for name, cure in UNCALLABLE.items():
        said = [line for line in host.lines if f"its tool {name}.sort is not listed" in line]
        assert len(said) == 1 and cure in said[0], (name, said)


def test_what_adapters_host_is_described(host: Host) -> None:
    """By the method's name of now, and by its former one; an adapter with neither is carried without an entry."""
    with asking(host) as client:
        shown = client.call(host.uri, "DESCRIBE", "/").result["hosted_protocols"]
    told = {entry["name"] for entry in shown}
    assert {*CALLABLE, *UNCALLABLE} - told == {"silent"}


def test_what_plan_writes_is_sent_verbatim(host: Host) -> None:
    """The parameters of each step are those of its EXECUTE."""
    with asking(host) as client:
        for name in CALLABLE:
            goal = {"wish": f"Sort the titles of the {name} catalogue", **TITLES}
            reply = client.call(host.uri, "PLAN", "/", {"goal": goal})
            assert reply.ok, reply.body
            steps = [each for each in reply.result["ordered_steps"] if name in each["description"]]
            assert steps, reply.result
            succeeds(client, host, f"plan {name}", steps[0]["path"], steps[0]["parameters"])


def test_what_a_plan_needs_is_what_its_step_lacks(host: Host) -> None:
    """A message of an A2A agent is no fact of a goal: the step says that it needs one, and works with it."""
    with asking(host) as client:
        for goal, needs in (("Send a message to the agent helper", ["message"]), ("Read the card of helper", [])):
            (step,) = client.call(host.uri, "PLAN", "/", {"goal": goal}).result["ordered_steps"]
            assert step["needs"] == needs
            payload = {**step["parameters"]["payload"], **(MESSAGE if needs else {})}
            succeeds(client, host, goal, step["path"], {**step["parameters"], "payload": payload})


def test_what_openapi_describes_is_what_is_called(served: tuple[Host, int]) -> None:
    """Each listed tool is one operation of the gateway: its arguments follow the schema, and so does its answer."""
    host, port = served
    document = ask(port, "GET", "/.well-known/openapi.json").value
    with asking(host) as client:
        listed = tools(client, host.uri)
    paths = {name: tool_path(*name.split(".", 1)) for name in listed}
    assert {path for path in document["paths"] if path.startswith("/tools/")} == {*paths.values()}
    for name, arguments in ARGUMENTS.items():
        operation = document["paths"][paths[name]]["post"]
        given = operation["requestBody"]["content"]["application/json"]["schema"]
        checked(given, document).validate(arguments)
        answered = ask(port, "POST", str(paths[name]), arguments)
        assert answered.status == 200, (name, answered.body)
        said = operation["responses"]["200"]["content"]["application/json"]["schema"]
        checked(said, document).validate(answered.value)
        if "titles" in arguments:
            assert answered.value["result"] == {"titles": ["Emma", "Persuasion"]}, name
    refused = ask(port, "POST", "/tools/helper/a2a.message.send", {**MESSAGE, "agent": "other"})
    assert (refused.status, refused.value["parameter"]) == (422, "agent"), "the path says which agent"
    for path in ("/tools/helper/a2a.relay.nothing", "/tools/silent/sort", "/tools/whole/nothing"):
        assert ask(port, "POST", path, {}).status == 404, path


def checked(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Draft202012Validator:
    """What checks a value against a schema of the document."""
    return Draft202012Validator({**schema, "components": document["components"]})


def test_what_cards_offer_is_called_by_its_card(host: Host) -> None:
    """EXECUTE /cards/ID makes the same call."""
    with asking(host) as client:
        for name in CALLABLE:
            asked = {"action": "sort", "parameters": TITLES}
            reply = client.call(host.uri, "EXECUTE", f"/cards/{name}:{name}", asked)
            assert reply.ok and reply.result == {"titles": ["Emma", "Persuasion"]}, (name, reply.body)


def test_what_agtp_tools_ls_lists_agtp_tools_call_calls(host: Host) -> None:
    """Tools of plugins and actions of A2A agents among them; what is unknown is refused as ever."""
    listed = {each["name"]: each for each in host.agtp_json("tools", "ls")}
    with asking(host) as client:
        assert {*listed} == {*tools(client, host.uri)} >= {*ARGUMENTS}
    sent = host.agtp_json("tools", "call", "helper.a2a.message.send", f"message:={json.dumps(MESSAGE['message'])}")
    assert "task" in sent["result"] and sent["verified"], sent
    assert "helper.a2a.message.send" in host.agtp("tools", "ls").stdout
    with asking(host) as client:
        for name in (f"{each}.sort" for each in CALLABLE):
            succeeds(client, host, f"ls {name}", listed[name]["path"], execute_listed(listed[name], TITLES))
    called = host.agtp_json("tools", "call", "merged.sort", f"titles:={json.dumps(TITLES['titles'])}")
    assert called["result"] == {"titles": ["Emma", "Persuasion"]} and called["verified"], called
    unknown = host.agtp("tools", "call", "silent.sort")
    assert unknown.returncode == 1 and "unknown-tool" in unknown.stdout + unknown.stderr


async def call_each(session: Any) -> None:
    """Every kind of tool is listed to MCP clients with the schema of its arguments, and answers as listed."""
    listed = {tool.name: tool for tool in (await session.list_tools()).tools}
    for name, arguments in ARGUMENTS.items():
        tool = listed[shown_name(name)]
        schema = getattr(tool, "input_schema", None) or tool.inputSchema
        Draft202012Validator(schema).validate(arguments)
        found = await session.call_tool(tool.name, dict(arguments))
        assert not (found.is_error if hasattr(found, "is_error") else found.isError), (name, found)
        told = found.structured_content if hasattr(found, "structured_content") else found.structuredContent
        if "titles" in arguments:
            assert told == {"titles": ["Emma", "Persuasion"]}, (name, found)
    assert not {name for name in listed if name.partition("__")[0] in UNCALLABLE}


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_what_the_mcp_front_lists_it_calls(served: tuple[Host, int], mode: str) -> None:
    """Tools of plugins and actions of A2A agents are among them; a client that has listed nothing calls them, too."""

    async def work() -> None:
        url, fields = f"http://127.0.0.1:{served[1]}/mcp", {"Authorization": f"Bearer {TOKEN}"}
        async with (
            httpx2.AsyncClient(headers=fields) as http,
            McpClient(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            for name in ("whole__sort", "whole.sort"):
                first = await client.call_tool(name, dict(TITLES))
                assert first.structured_content == {"titles": ["Emma", "Persuasion"]}, first
            await call_each(client)
            wrong = await client.call_tool("whole__sort", {"title": 1})
            assert wrong.is_error and "invalid-input" in str(wrong), wrong
            absent = await client.call_tool("whole__nothing", {})
            assert absent.is_error and "unknown-tool" in str(absent), absent

    asyncio.run(work())


def test_what_a_session_in_place_of_mcp_lists_it_calls(host: Host) -> None:
    """:func:`agtphost.client.mcp.governed_session`, and the search in place of lists."""

    async def work() -> None:
        for name, arguments in ARGUMENTS.items():
            async with governed_session(host.config, as_="demo") as session:
                # By the host's own name, of which this session has seen no list.
                for _ in range(2):
                    found = await session.call_tool(name, dict(arguments))
                    assert not (found.is_error if hasattr(found, "is_error") else found.isError), (name, found)
        async with governed_session(host.config, as_="demo") as session:
            first = await session.call_tool("merged__sort", TITLES)
            assert not first.isError if hasattr(first, "isError") else not first.is_error
            await call_each(session)
            search = ToolSearch(session._endpoints._link, shown_name, None, session._endpoints)
            for name in CALLABLE:
                asked = {"query": f"sorts the titles of the {name} catalogue", "limit": 25}
                found = (await search.search(asked, "s"))["structuredContent"]["tools"]
                assert f"{name}__sort" in {tool["name"] for tool in found}
            alone = ToolSearch(session._endpoints._link, shown_name, None, None)
            found = (await alone.search(asked, "s"))["structuredContent"]["tools"]
            assert not {tool["name"] for tool in found if tool["name"].partition("__")[0] in (*CALLABLE, "helper")}

    asyncio.run(work())


def test_check_access_offers_what_is_listed(host: Host, page: list[int]) -> None:
    """All tools, of plugins and agents as well; each answer is that of a call, there and in the view of the tool."""
    browser = Site(host, page[0]).browser()
    with asking(host) as client:
        listed = tools(client, host.uri)
    found = re.findall(r'<option[^>]* value="tool ([^"]+)"', browser.get("/can").text)
    assert {html.unescape(each) for each in found} == {*listed} >= {*ARGUMENTS}
    for name in ("whole.sort", "helper.a2a.card.get", "files.list_files"):
        asked = browser.get(f"/can?{urlencode({'agent': 'demo', 'what': f'tool {name}'})}")
        assert asked.status == 200 and "Answer yes" in " ".join(asked.page.said), (name, asked.page.said)
    for path in ("whole.whole.sort", "a2a.helper.a2a.card.get", "mcp.files.list_files"):
        shown = browser.get(f"/tools/{path}")
        assert shown.status == 200 and "Who may call it" in shown.page.said, (path, shown.text[:500])
        assert re.search("demo.* yes", " ".join(shown.page.said)), (path, shown.page.said)
        assert ("Only tools of MCP servers can be tried" in shown.text) is not path.startswith("mcp."), path


def test_agtp_can_answers_as_a_call_of_the_listed_tool_does(host: Host) -> None:
    """By the name in lists: with and without arguments, also wrong ones, for each kind of tool; and for no tool."""
    for name, arguments in ARGUMENTS.items():
        for words in ((), (json.dumps(arguments),)):
            done = host.agtp("can", "demo", name, *words)
            assert done.returncode == 0 and f"demo may call {name}" in done.stdout, (name, done.stdout, done.stderr)
    for name in CALLABLE:
        wrong = decision(host, f"{name}.sort", '{"title": 1}')
        assert (wrong["refusal"]["reason"], wrong["name"]) == ("invalid-input", f"{name}.sort"), wrong
        (used,) = (each for each in host.agtp_json("tools", "ls") if each["name"] == f"{name}.sort")
        with asking(host) as client:
            reply = client.call(host.uri, "EXECUTE", used["path"], execute_listed(used, {"title": 1}))
        assert reply.reason == "invalid-input", reply.body
    for name in ("silent.sort", "whole.nothing", "nowhere.tool"):
        assert decision(host, name)["refusal"]["reason"] == "unknown-tool", name


def decision(host: Host, *words: str) -> dict[str, Any]:
    """What ``agtp can demo`` says of a call that is refused."""
    done = host.agtp("can", "demo", *words, "--json")
    assert done.returncode == 1, done.stdout + done.stderr
    return dict(json.loads(done.stdout))


def test_a_plugins_tool_is_granted_by_its_action(host: Host) -> None:
    """The name that lists show is no grant, and the refusal says what is; the granted tool is called by its name."""
    host.agtp("agent", "new", "clerk", "--scope", "mcp:tools:execute", "--admit")
    refused = host.agtp("agent", "limit", "clerk", "whole.sort", "--yes")
    assert refused.returncode == 1 and "Did you mean EXECUTE whole.sort?" in refused.stderr, refused
    granted = host.agtp("agent", "limit", "clerk", "EXECUTE whole.sort", "--yes")
    assert granted.returncode == 0 and "is known when it is called" not in granted.stderr, granted
    assert [each["name"] for each in host.agtp_json("tools", "ls", "--as", "clerk")] == ["whole.sort"]
    words = (f"titles:={json.dumps(TITLES['titles'])}", "--as", "clerk")
    assert host.agtp_json("tools", "call", "whole.sort", *words)["result"] == {"titles": ["Emma", "Persuasion"]}
    assert host.agtp("tools", "call", "member.sort", *words).returncode == 1
    assert not {*CALLABLE} & {*host.agtp_json("agent", "rights", "clerk")["unlisted_servers"]}
