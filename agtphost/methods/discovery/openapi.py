"""
``DISCOVER /methods`` with ``format=openapi``: what one caller may call, for clients of HTTP.

The list is that of DISCOVER, filtered by the gates' own decision; :mod:`agtphost.contract.openapi` maps it to HTTP.
Documents are written outside of the reactor, and cached for all callers with the same authority. They contain no times,
so each has one ETag as long as nothing changes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from agtphost.contract.binding import Binding
from agtphost.contract.built_in_contracts import COMMON
from agtphost.contract.carried_call import upstream_of
from agtphost.contract.manifest import project_binding
from agtphost.contract.openapi.export import encode_callable_openapi
from agtphost.contract.openapi.http_methods import Verbs
from agtphost.contract.openapi.operations import Operations
from agtphost.handlers.built_in import Answer, BuiltInContext
from agtphost.iagtp import IAgentDirectory, IPayloadAdapter
from agtphost.identity.agents import Agent
from agtphost.identity.peer import Assurance
from agtphost.methods import execution
from agtphost.methods.discovery.document_cache import KeptDocuments
from agtphost.methods.discovery.publication import add_validators
from agtphost.methods.discovery.visibility import Visibility
from agtphost.vocabulary import media_types
from agtphost.vocabulary.catalog import Catalog

FORMAT = "openapi"
"""The value of ``format``."""

Run = Callable[..., Awaitable[Any]]
"""Runs a function with its arguments off the reactor."""

Entry = tuple[Mapping[str, Any], str]
"""An endpoint as the manifest has it, and the prefix of its path."""


class OpenAPIFace:
    """
    Writes OpenAPI documents.

    :param title: the host's name.
    :param catalog: which methods only read, and what the host's own ones do.
    :param aliases: what HTTP's methods stand for here.
    :param bindings: everything registered; read at every call.
    :param adapters: whose tools are listed.
    :param directory: the hosted agents, some of which offer what others do not.
    :param visibility: which of them a caller is shown.
    :param version: of what the host has to offer.
    :param server_url: where its gateway is.
    :param stream: whether that sends events.
    """

    def __init__(
        self,
        title: str,
        catalog: Catalog,
        aliases: Mapping[str, str],
        bindings: Callable[[], Iterable[Binding]],
        adapters: Sequence[IPayloadAdapter],
        directory: IAgentDirectory,
        visibility: Visibility,
        run: Run,
        *,
        version: Callable[[], str] = lambda: "1",
        server_url: str = "/",
        stream: bool = True,
    ) -> None:
        self._title = title
        self._catalog = catalog
        self._verbs = Verbs.from_aliases(aliases, catalog.reads)
        self._bindings = bindings
        self._adapters = adapters
        self._directory = directory
        self._visibility = visibility
        self._run = run
        self._version = version
        self._server_url = server_url
        self._stream = stream
        self._documents = KeptDocuments()

    async def answer(self, context: BuiltInContext, *, built_ins: bool) -> Answer:
        """
        Return the document of what one caller may call.

        :param built_ins: whether what every host answers is in it too, besides documents about agents.
        """
        addressed = context.agent if context.invocation.is_addressed_by_path else None
        prefix = "" if addressed is None else f"/agents/{addressed.name}"
        bindings, tools = list(self._bindings()), execution.list_offered_tools(self._adapters, context)
        agents = list(filter(self._visibility.in_lists(context), self._directory.list_hosted()))
        current: list[Any] = [*bindings, *tools, *agents]
        key = (context.authority(), prefix, built_ins, self._version())
        known = self._documents.find(key, current)
        if known is not None:
            return known
        about = {
            "server_id": self._title,
            "agent_id": None if context.caller is None else context.caller.agent_id,
            "assurance": context.assurance.label,
        }
        answer: Answer = await self._run(
            self._build_document, context, bindings, tools, agents, built_ins, self._version(), prefix, about
        )
        self._documents.keep(key, current, answer)
        return answer

    def _build_document(
        self,
        context: BuiltInContext,
        bindings: Sequence[Binding],
        tools: Sequence[Binding],
        agents: Sequence[Agent],
        built_ins: bool,
        version: str,
        prefix: str,
        about: Mapping[str, Any],
    ) -> Answer:
        entries: list[Entry] = []
        for binding in bindings:
            if built_ins or is_described(binding, prefix):
                entries.extend(
                    (project_endpoint(binding, self._catalog), before)
                    for before in list_prefixes(binding, context, prefix, agents)
                )
        anonymous = context.assurance < Assurance.GATEWAY
        operations = Operations(self._verbs, anonymous=anonymous, stream=self._stream)
        for endpoint, before in entries:
            operations.add(endpoint, before)
        for tool in filter(context.admits, tools):
            operations.add_tool(tool_operation(tool, self._catalog), prefix)
        body = encode_callable_openapi(self._title, version, operations, server_url=self._server_url, about=about)
        answer = Answer(body=body, content_type=media_types.OPENAPI)
        return add_validators(answer, "Authorization")


def is_described(binding: Binding, prefix: str = "") -> bool:
    """Return whether a document has a binding also where the host's own are not asked for."""
    return binding.tier != "A" or (binding.method == "FETCH" and not prefix)


def http_methods_at(bindings: Sequence[Binding], aliases: Mapping[str, str], catalog: Catalog) -> list[str]:
    """
    Return the HTTP methods by which a document describes the bindings of one path.

    Where it describes none, these are the ones of a document with the host's own.
    """
    shown = list(filter(is_described, bindings)) or bindings
    return Verbs.from_aliases(aliases, catalog.reads).carry(project_endpoint(each, catalog) for each in shown)


def list_prefixes(binding: Binding, context: BuiltInContext, prefix: str, agents: Sequence[Agent]) -> Iterable[str]:
    """
    Yield the path prefixes under which the caller may call a binding: its own path, or each agent that offers it.

    :param prefix: the prefix of the path at the addressed agent; empty where none is addressed.
    :return: the prefixes.
    """
    if context.admits(binding):
        yield prefix
    elif binding.agents and not prefix:
        for agent in agents:
            if agent.agent_id in binding.agents and context.invocation.admits_at(binding, agent):
                yield f"/agents/{agent.name}"


def project_endpoint(binding: Binding, catalog: Catalog) -> Mapping[str, Any]:
    """Return a binding in the form of the manifest."""
    if binding.tier == "A":
        return _drop_common_parameters(project_binding(binding, catalog))
    # What was declared in a file has its entry of the manifest.
    return binding.details if "output_schema" in binding.details else project_binding(binding, catalog)


def _drop_common_parameters(endpoint: dict[str, Any]) -> dict[str, Any]:
    """Return a built-in's entry without common parameters, which HTTP sends as header fields."""
    schema = endpoint["input_schema"]
    properties = {name: item for name, item in schema["properties"].items() if name not in COMMON}
    return {**endpoint, "input_schema": {**schema, "properties": properties}}


def tool_operation(tool: Binding, catalog: Catalog) -> dict[str, Any]:
    """Return the OpenAPI operation of a hosted tool: EXECUTE with the tool's arguments as input."""
    server, name = upstream_of(tool.name, tool.path)
    return {
        **project_binding(tool, catalog),
        "server": server,
        "tool": name,
        "description": tool.description or tool.name,
        "input_schema": _arguments(tool),
        "output_schema": {"type": "object"},
        "call": tool.call,
        "structured": tool.structured,
        **({"mcp": True} if "mcp" in tool.details else {}),
        **({"approval": "required"} if tool.approval else {}),
    }


def _arguments(tool: Binding) -> Mapping[str, Any]:
    """Return the schema of a tool's arguments without the upstream's name, which is part of the path."""
    schema = execution.arguments_of(tool)
    member = "" if tool.call is None else tool.call.upstream_member
    if member not in schema.get("properties", {}):
        return schema
    return {**schema, "properties": {name: each for name, each in schema["properties"].items() if name != member}}
