"""
What the official MCP conformance suite expects a server to offer, on the official SDK, in both protocol eras.

Run as ``python conformance_server.py``: it speaks on stdin and stdout. It stands behind a host, and so shows what
of MCP gets through the host and the bridge.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
import warnings
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import conformance_tasks  # type: ignore[import-not-found]  # beside this file, which is a program
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.subscriptions import PromptsListChanged, ResourceUpdated, ToolsListChanged
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

warnings.simplefilter("ignore", MCPDeprecationWarning)

Context = ServerRequestContext[Any, Any]
Result = Mapping[str, Any]

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
KEY = secrets.token_bytes(32)

bus = InMemorySubscriptionBus()
listening = ListenHandler(bus)


def modern(context: Context) -> bool:
    """Whether the request is of 2026-07-28."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


def text(said: str) -> dict[str, Any]:
    """A result of one text."""
    return {"resultType": "complete", "content": [{"type": "text", "text": said}]}


# What a tool asks the client for


def elicitation(message: str, properties: Mapping[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    """A form."""
    schema: dict[str, Any] = {"type": "object", "properties": dict(properties)}
    if required is not None:
        schema["required"] = required
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def sampling(prompt: str, most: int = 100) -> dict[str, Any]:
    """A question for the model."""
    message = {"role": "user", "content": {"type": "text", "text": prompt}}
    return {"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": most}}


ROOTS: dict[str, Any] = {"method": "roots/list", "params": {}}

NAME = elicitation("What is your name?", {"name": {"type": "string"}}, ["name"])


class Raw(BaseModel):
    """A client's answer, as it is."""

    model_config = {"extra": "allow"}


async def asked(context: Context, wanted: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """
    The client's answers by name; None where the answer to this request has to be :func:`required` first.

    In the handshake era the client is asked at once.
    """
    if modern(context):
        given = (context.params or {}).get("inputResponses")
        sound = isinstance(given, dict) and all(isinstance(given.get(name), dict) for name in wanted)
        return given if sound else None
    answers = {}
    for name, request in wanted.items():
        typed: Any = {
            "elicitation/create": types.ElicitRequest,
            "sampling/createMessage": types.CreateMessageRequest,
            "roots/list": types.ListRootsRequest,
        }[request["method"]].model_validate(request)
        answer = await context.session.send_request(
            typed, Raw, metadata=ServerMessageMetadata(related_request_id=context.request_id)
        )
        answers[name] = answer.model_dump(by_alias=True, mode="json")
    return answers


def required(wanted: Mapping[str, Any], state: str | None = None) -> Result:
    """An InputRequiredResult."""
    result: dict[str, Any] = {"resultType": "input_required", "inputRequests": dict(wanted)}
    return result if state is None else {**result, "requestState": seal(state)}


def seal(state: str) -> str:
    """A state that nobody else can make."""
    return f"{state}.{hmac.new(KEY, state.encode(), hashlib.sha256).hexdigest()}"


def unsealed(context: Context) -> str | None:
    """The state that came back. :raises MCPError: if it is not one of :func:`seal`'s."""
    given = (context.params or {}).get("requestState")
    if given is None:
        return None
    state = str(given).rpartition(".")[0]
    if not hmac.compare_digest(seal(state), str(given)):
        raise MCPError(types.INVALID_PARAMS, "The requestState was tampered with.")
    return state


# Tools

Tool = Callable[[Context, Mapping[str, Any]], Awaitable[Result]]
TOOLS: dict[str, Tool] = {}
DEFINITIONS: list[dict[str, Any]] = []

NOTHING: dict[str, Any] = {"type": "object", "properties": {}}


def tool(schema: Mapping[str, Any] = NOTHING) -> Callable[[Tool], Tool]:
    """Offer a function as the tool of its name."""

    def offered(function: Tool) -> Tool:
        TOOLS[function.__name__] = function
        DEFINITIONS.append(
            {"name": function.__name__, "description": str(function.__doc__), "inputSchema": dict(schema)}
        )
        return function

    return offered


def strings(*names: str) -> dict[str, Any]:
    """The schema of some required strings."""
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": list(names)}


@tool()
async def test_simple_text(context: Context, _: Mapping[str, Any]) -> Result:
    """One text."""
    return text("This is a simple text response for testing.")


IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}


def resource(uri: str, kind: str, content: str) -> dict[str, Any]:
    """An embedded resource."""
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": content}}


@tool()
async def test_image_content(context: Context, _: Mapping[str, Any]) -> Result:
    """One image."""
    return {"resultType": "complete", "content": [IMAGE]}


@tool()
async def test_audio_content(context: Context, _: Mapping[str, Any]) -> Result:
    """One sound."""
    return {"resultType": "complete", "content": [{"type": "audio", "data": WAV, "mimeType": "audio/wav"}]}


@tool()
async def test_embedded_resource(context: Context, _: Mapping[str, Any]) -> Result:
    """One resource."""
    content = resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    return {"resultType": "complete", "content": [content]}


@tool()
async def test_multiple_content_types(context: Context, _: Mapping[str, Any]) -> Result:
    """A text, an image and a resource."""
    mixed = resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return {
        "resultType": "complete",
        "content": [{"type": "text", "text": "Multiple content types test:"}, IMAGE, mixed],
    }


async def log(context: Context, level: str, data: object) -> None:
    """One log message on the request's own stream."""
    await context.session.send_log_message(level, data, "fixture", related_request_id=context.request_id)  # type: ignore[arg-type]


@tool()
async def test_tool_with_logging(context: Context, _: Mapping[str, Any]) -> Result:
    """Three log messages."""
    await log(context, "info", "Tool execution started")
    await asyncio.sleep(0.05)
    await log(context, "info", "Tool processing data")
    await asyncio.sleep(0.05)
    await log(context, "info", "Tool execution completed")
    return text("Tool with logging executed")


@tool()
async def test_logging_tool(context: Context, _: Mapping[str, Any]) -> Result:
    """A log message for those who asked for them."""
    await log(context, "info", "logged")
    return text("logged")


@tool()
async def test_tool_with_progress(context: Context, _: Mapping[str, Any]) -> Result:
    """Three steps."""
    for step in (0, 50, 100):
        await context.session.report_progress(step, 100)
        await asyncio.sleep(0.05)
    return text("done")


@tool()
async def test_error_handling(context: Context, _: Mapping[str, Any]) -> Result:
    """Always an error."""
    return {**text("This tool intentionally returns an error for testing"), "isError": True}


@tool(strings("prompt"))
async def test_sampling(context: Context, arguments: Mapping[str, Any]) -> Result:
    """Asks the client's model."""
    wanted = {"answer": sampling(arguments["prompt"])}
    answers = await asked(context, wanted)
    if answers is None:
        return required(wanted)
    return text(f"LLM response: {answers['answer']['content']['text']}")


@tool(strings("message"))
async def test_elicitation(context: Context, arguments: Mapping[str, Any]) -> Result:
    """Asks the person at the client."""
    properties = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    wanted = {"answer": elicitation(arguments["message"], properties, ["username", "email"])}
    answers = await asked(context, wanted)
    return required(wanted) if answers is None else text(f"User response: {json.dumps(answers['answer'])}")


async def filled(context: Context, properties: Mapping[str, Any]) -> Result:
    """A form that is filled in."""
    wanted = {"form": elicitation("Please fill this in.", properties)}
    answers = await asked(context, wanted)
    if answers is None:
        return required(wanted)
    form = answers["form"]
    return text(f"Elicitation completed: action={form['action']}, content={json.dumps(form.get('content'))}")


@tool()
async def test_elicitation_sep1034_defaults(context: Context, _: Mapping[str, Any]) -> Result:
    """A form with defaults."""
    return await filled(
        context,
        {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": True},
        },
    )


@tool()
async def test_elicitation_sep1330_enums(context: Context, _: Mapping[str, Any]) -> Result:
    """A form with every kind of choice."""
    titled = [{"const": f"value{n}", "title": f"{word} Option"} for n, word in enumerate(("First", "Second"), 1)]
    options = ["option1", "option2", "option3"]
    return await filled(
        context,
        {
            "untitledSingle": {"type": "string", "enum": options},
            "titledSingle": {"type": "string", "oneOf": titled},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled}},
        },
    )


@tool(
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    }
)
async def json_schema_2020_12_tool(context: Context, _: Mapping[str, Any]) -> Result:
    """Tool with JSON Schema 2020-12 features"""
    return text("valid")


@tool(
    {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        "required": ["region"],
    }
)
async def test_headers(context: Context, arguments: Mapping[str, Any]) -> Result:
    """Has an argument that HTTP clients mirror in a header."""
    return text(str(arguments["region"]))


@tool()
async def comes_and_goes(context: Context, _: Mapping[str, Any]) -> Result:
    """Is there at times."""
    return text("I am here.")


COMING_AND_GOING = DEFINITIONS.pop()


@tool()
async def test_trigger_tool_change(context: Context, _: Mapping[str, Any]) -> Result:
    """Adds a tool, or takes it away."""
    if COMING_AND_GOING in DEFINITIONS:
        DEFINITIONS.remove(COMING_AND_GOING)
    else:
        DEFINITIONS.append(COMING_AND_GOING)
    await bus.publish(ToolsListChanged())
    if not modern(context):
        await context.session.send_tool_list_changed()
    return text("told")


@tool()
async def test_trigger_prompt_change(context: Context, _: Mapping[str, Any]) -> Result:
    """Adds a prompt, or takes it away."""
    if ANOTHER_PROMPT in PROMPTS:
        PROMPTS.remove(ANOTHER_PROMPT)
    else:
        PROMPTS.append(ANOTHER_PROMPT)
    await bus.publish(PromptsListChanged())
    if not modern(context):
        await context.session.send_prompt_list_changed()
    return text("told")


@tool()
async def touch_watched_resource(context: Context, _: Mapping[str, Any]) -> Result:
    """Tells that the watched resource changed."""
    await bus.publish(ResourceUpdated(uri="test://watched-resource"))
    if not modern(context):
        await context.session.send_resource_updated("test://watched-resource")
    return text("told")


@tool()
async def wait_for_long(context: Context, _: Mapping[str, Any]) -> Result:
    """Reports a first step and then waits until it is cancelled."""
    await context.session.report_progress(1, 100)
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        CANCELLED.append("wait_for_long")
        raise
    return text("waited")


CANCELLED: list[str] = []


@tool()
async def what_was_cancelled(context: Context, _: Mapping[str, Any]) -> Result:
    """Names of the tools whose calls were cancelled."""
    return text(json.dumps(CANCELLED))


# Tools of 2026-07-28, which ask by answering


@tool()
async def test_missing_capability(context: Context, _: Mapping[str, Any]) -> Result:
    """Needs a client with a model."""
    declared = context.session.client_capabilities
    if declared is None or declared.sampling is None:
        needed = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "This tool needs sampling.", needed)
    return text("The client has a model.")


@tool()
async def test_streaming_elicitation(context: Context, _: Mapping[str, Any]) -> Result:
    """Reports progress, and then asks."""
    await context.session.report_progress(1, 2)
    return await test_input_required_result_elicitation(context, {})


@tool()
async def test_input_required_result_elicitation(context: Context, _: Mapping[str, Any]) -> Result:
    """Asks for a name."""
    answers = await asked(context, {"user_name": NAME})
    if answers is None:
        return required({"user_name": NAME})
    return text(f"Hello, {answers['user_name'].get('content', {}).get('name')}!")


@tool()
async def test_input_required_result_sampling(context: Context, _: Mapping[str, Any]) -> Result:
    """Asks the model a question."""
    wanted = {"capital_question": sampling("What is the capital of France?")}
    answers = await asked(context, wanted)
    return required(wanted) if answers is None else text(json.dumps(answers["capital_question"]))


@tool()
async def test_input_required_result_list_roots(context: Context, _: Mapping[str, Any]) -> Result:
    """Asks for directories."""
    answers = await asked(context, {"client_roots": ROOTS})
    return required({"client_roots": ROOTS}) if answers is None else text(json.dumps(answers["client_roots"]))


CONFIRM = {"confirm": elicitation("Please confirm", {"ok": {"type": "boolean"}}, ["ok"])}


async def confirmed(context: Context) -> Result:
    """Asks for a word of confirmation, with a state."""
    state = unsealed(context)
    answers = await asked(context, CONFIRM)
    if answers is None or (modern(context) and state != "asked"):
        return required(CONFIRM, "asked")
    return text("state-ok")


@tool()
async def test_input_required_result_request_state(context: Context, _: Mapping[str, Any]) -> Result:
    """Asks, and wants its state back."""
    return await confirmed(context)


@tool()
async def test_input_required_result_tampered_state(context: Context, _: Mapping[str, Any]) -> Result:
    """Asks, and notices another's state."""
    return await confirmed(context)


@tool()
async def test_input_required_result_multiple_inputs(context: Context, _: Mapping[str, Any]) -> Result:
    """Asks for three things at once."""
    wanted = {"user_name": NAME, "greeting": sampling("Generate a greeting", 50), "client_roots": ROOTS}
    unsealed(context)
    answers = await asked(context, wanted)
    return required(wanted, "three") if answers is None else text(json.dumps(answers))


STEPS = {
    "1": {"step1": elicitation("Step 1: What is your name?", {"name": {"type": "string"}}, ["name"])},
    "2": {"step2": elicitation("Step 2: What is your favorite color?", {"color": {"type": "string"}}, ["color"])},
}


@tool()
async def test_input_required_result_multi_round(context: Context, _: Mapping[str, Any]) -> Result:
    """Asks twice."""
    if not modern(context):
        return text(json.dumps([await asked(context, STEPS["1"]), await asked(context, STEPS["2"])]))
    state = unsealed(context)
    if state is None:
        return required(STEPS["1"], "1")
    answers = await asked(context, STEPS[state])
    if answers is None:
        return required(STEPS[state], state)
    return required(STEPS["2"], "2") if state == "1" else text(json.dumps(answers))


@tool()
async def test_input_required_result_capabilities(context: Context, _: Mapping[str, Any]) -> Result:
    """Asks for what the client can do."""
    declared = context.session.client_capabilities
    wanted: dict[str, Any] = {}
    if declared is not None and declared.elicitation is not None:
        wanted["name"] = NAME
    if declared is not None and declared.sampling is not None:
        wanted["question"] = sampling("What is the capital of France?")
    if not wanted:
        return text("nothing can be asked")
    answers = await asked(context, wanted)
    return required(wanted) if answers is None else text(json.dumps(answers))


# Tools that become tasks


@tool(strings("name"))
async def greet(context: Context, arguments: Mapping[str, Any]) -> Result:
    """Greets."""
    return text(f"Hello, {arguments['name']}!")


def background(name: str, schema: Mapping[str, Any], *, required: bool = False) -> None:
    """Offer one of the tasks' works as a tool."""

    async def start(context: Context, arguments: Mapping[str, Any]) -> Result:
        begun: Result = await conformance_tasks.started(
            context, conformance_tasks.WORKS[name], arguments, required=required
        )
        return begun

    start.__name__, start.__doc__ = name, conformance_tasks.WORKS[name].__doc__
    tool(schema)(start)


background("slow_compute", {"type": "object", "properties": {"seconds": {"type": "number"}}})
background("failing_job", NOTHING, required=True)
background("protocol_error_job", NOTHING)
background("confirm_delete", {"type": "object", "properties": {"filename": {"type": "string"}}})
background("multi_input", NOTHING)


@tool()
async def test_tool_with_task(context: Context, arguments: Mapping[str, Any]) -> Result:
    """Asks for a name, and then goes on as a task."""
    answers = await asked(context, {"user_name": NAME})
    if answers is None:
        return required({"user_name": NAME})

    async def work(task: conformance_tasks.Task, _: Mapping[str, Any]) -> dict[str, Any]:
        return conformance_tasks.text(f"Done for {answers['user_name']['content']['name']}")

    begun: Result = await conformance_tasks.started(context, work, arguments, required=True)
    return begun


# Handlers


async def list_tools(context: Context, _: object) -> Result:
    return {"resultType": "complete", "tools": DEFINITIONS, "ttlMs": 0, "cacheScope": "private"}


async def call_tool(context: Context, params: types.CallToolRequestParams) -> Result:
    found = TOOLS.get(params.name)
    if found is None:
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
    return await found(context, params.arguments or {})


RESOURCES = {
    "test://static-text": {"mimeType": "text/plain", "text": "This is the content of the static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": PNG},
    "test://watched-resource": {"mimeType": "text/plain", "text": "watched"},
}
TEMPLATE = "test://template/{id}/data"


async def list_resources(context: Context, _: object) -> Result:
    listed = [
        {"uri": uri, "name": uri.partition("//")[2], "description": f"The resource {uri}", "mimeType": one["mimeType"]}
        for uri, one in RESOURCES.items()
    ]
    return {"resultType": "complete", "resources": listed, "ttlMs": 0, "cacheScope": "public"}


async def list_templates(context: Context, _: object) -> Result:
    template = {"uriTemplate": TEMPLATE, "name": "template", "mimeType": "application/json", "description": "By id"}
    return {"resultType": "complete", "resourceTemplates": [template], "ttlMs": 0, "cacheScope": "public"}


async def read_resource(context: Context, params: types.ReadResourceRequestParams) -> Result:
    uri = str(params.uri)
    content = RESOURCES.get(uri)
    begin, _, end = TEMPLATE.partition("{id}")
    if content is None and uri.startswith(begin) and uri.endswith(end):
        number = uri[len(begin) : -len(end)]
        said = {"id": number, "templateTest": True, "data": f"Data for ID: {number}"}
        content = {"mimeType": "application/json", "text": json.dumps(said)}
    if content is None:
        code = types.INVALID_PARAMS if modern(context) else -32002
        raise MCPError(code, "Resource not found", {"uri": uri})
    return {"resultType": "complete", "contents": [{"uri": uri, **content}], "ttlMs": 0, "cacheScope": "public"}


def prompt(name: str, *arguments: str) -> dict[str, Any]:
    """A prompt's definition."""
    listed = [{"name": each, "description": f"The argument {each}", "required": True} for each in arguments]
    return {"name": name, "description": f"The prompt {name}", "arguments": listed}


PROMPTS = [
    prompt("test_simple_prompt"),
    prompt("test_prompt_with_arguments", "arg1", "arg2"),
    prompt("test_prompt_with_embedded_resource", "resourceUri"),
    prompt("test_prompt_with_image"),
    prompt("test_input_required_result_prompt"),
]


ANOTHER_PROMPT = prompt("comes_and_goes")


async def list_prompts(context: Context, _: object) -> Result:
    return {"resultType": "complete", "prompts": PROMPTS, "ttlMs": 0, "cacheScope": "public"}


def messages(*contents: Mapping[str, Any]) -> Result:
    """What a prompt is."""
    return {"resultType": "complete", "messages": [{"role": "user", "content": dict(each)} for each in contents]}


def words(said: str) -> dict[str, Any]:
    """One text."""
    return {"type": "text", "text": said}


async def get_prompt(context: Context, params: types.GetPromptRequestParams) -> Result:
    arguments = params.arguments or {}
    if params.name == "test_simple_prompt":
        return messages(words("This is a simple prompt for testing."))
    if params.name == "test_prompt_with_arguments":
        said = f"Prompt with arguments: arg1='{arguments['arg1']}', arg2='{arguments['arg2']}'"
        return messages(words(said))
    if params.name == "test_prompt_with_embedded_resource":
        embedded = resource(arguments["resourceUri"], "text/plain", "Embedded resource content for testing.")
        return messages(embedded, words("Please process the embedded resource above."))
    if params.name == "test_prompt_with_image":
        return messages(IMAGE, words("Please analyze the image above."))
    if params.name == "test_input_required_result_prompt":
        properties = {"context": {"type": "string"}}
        wanted = {"user_context": elicitation("What context should the prompt use?", properties, ["context"])}
        answers = await asked(context, wanted)
        return required(wanted) if answers is None else messages(words(json.dumps(answers)))
    raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name}")


async def complete(context: Context, params: types.CompleteRequestParams) -> Result:
    fitting = [each for each in ("paris", "park", "party", "test") if each.startswith(params.argument.value)]
    completion = {"values": fitting, "total": len(fitting), "hasMore": False}
    return {"resultType": "complete", "completion": completion}


async def nothing(context: Context, _: object) -> Result:
    return {}


class Announcing(Server[Any]):
    """Announces changes in the handshake era too."""

    def create_initialization_options(self, *_: Any, **__: Any) -> Any:
        return super().create_initialization_options(NotificationOptions(True, True, True), {}, {})


def build() -> Server[Any]:
    """The server."""
    server = Announcing("conformance-fixture", version="1", on_subscriptions_listen=listening)
    handlers: tuple[tuple[str, type[BaseModel], Any], ...] = (
        ("tools/list", types.PaginatedRequestParams, list_tools),
        ("tools/call", types.CallToolRequestParams, call_tool),
        ("resources/list", types.PaginatedRequestParams, list_resources),
        ("resources/templates/list", types.PaginatedRequestParams, list_templates),
        ("resources/read", types.ReadResourceRequestParams, read_resource),
        ("resources/subscribe", types.SubscribeRequestParams, nothing),
        ("resources/unsubscribe", types.UnsubscribeRequestParams, nothing),
        ("prompts/list", types.PaginatedRequestParams, list_prompts),
        ("prompts/get", types.GetPromptRequestParams, get_prompt),
        ("completion/complete", types.CompleteRequestParams, complete),
        ("logging/setLevel", types.SetLevelRequestParams, nothing),
    )
    for method, params, handler in handlers:
        server.add_request_handler(method, params, handler)
    for method, handler in conformance_tasks.HANDLERS.items():
        server.add_request_handler(method, conformance_tasks.TaskParams, handler)
    server.extensions = {conformance_tasks.EXTENSION: {}}
    return server


async def main() -> None:
    """Serve one client."""
    server = build()
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
