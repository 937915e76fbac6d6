"""Resolve the actions besides tool calls to bindings, for the gates to decide about."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from agtphost.adapters.mcp.approval import ApproveTool
from agtphost.adapters.mcp.bare_names import Admits, bare_binding, hide_behind, tell_ambiguity
from agtphost.adapters.mcp.bindings import McpRequest, override_of, resource_binding
from agtphost.adapters.mcp.call_tracker import CallTracker, CancelCalls
from agtphost.adapters.mcp.catalogue import LISTS
from agtphost.adapters.mcp.listen_handler import LONGEST_SECONDS, MOST_URIS, ListenForChanges
from agtphost.adapters.mcp.lists import ResourceList
from agtphost.adapters.mcp.notifications import LEVELS, SetLevel
from agtphost.adapters.mcp.server import McpServer
from agtphost.adapters.mcp.subscribers import LIST_CHANGES
from agtphost.adapters.mcp.tasks import TaskRequest
from agtphost.config.upstreams import Override
from agtphost.contract.binding import Binding, Resolution
from agtphost.errors import NamingRefusal, Refusal
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.built_in import IBuiltInHandler
from agtphost.identity.peer import Assurance
from agtphost.upstream.approval import approve_binding
from agtphost.upstream.refusals import rules_unmatched
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status
from agtphost.vocabulary.uri_templates import fits

Servers = Mapping[str, McpServer]

_NEEDLESS_ESCAPE = re.compile(r"%(?:2[DE]|3[0-9]|4[1-9A-F]|5[0-9AF]|6[1-9A-F]|7[0-9AE])", re.ASCII | re.IGNORECASE)
"""Percent-encoded characters that need no encoding (RFC 3986 section 2.3)."""


def payload_refusal(explanation: str, remedy: str = "") -> Refusal:
    """Return the 422 refusal for a payload that is not as docs/mcp.rst describes."""
    return Refusal(Reason.INVALID_PAYLOAD, explanation, remedy=remedy)


def text(payload: Mapping[str, Any], name: str) -> str:
    """Return a member that must be a non-empty text."""
    value = payload.get(name)
    if type(value) is not str or not value:
        raise payload_refusal(f"The payload's {name} must be a text.")
    return value


def table(payload: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a member that must be an object where it is given."""
    value = payload.get(name)
    if value is not None and type(value) is not dict:
        raise payload_refusal(f"The payload's {name} must be an object.")
    return value or {}


def unknown_server(servers: Servers) -> Refusal:
    """Return the 404 refusal for an unknown server, with the servers whose tools the caller may call."""

    def list_candidates(admits: Callable[[Any], bool]) -> dict[str, object]:
        there = sorted(servers.items())
        return {"mcp_servers": [name for name, each in there if any(map(admits, each.catalogue.bindings.values()))]}

    return NamingRefusal(Reason.UNKNOWN_MCP_SERVER, among=list_candidates)


def read_repetition(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a payload that repeats a request with its caller's input."""
    members: dict[str, Any] = {}
    if "inputResponses" in payload:
        members["inputResponses"] = table(payload, "inputResponses")
    if "requestState" in payload:
        members["requestState"] = text(payload, "requestState")
    return members


class Operations:
    """
    The resolver of actions besides tool calls.

    :param servers: the hosted servers by name.
    :param calls: the tracker of calls.
    :param authorization: decides who may approve changed tools.
    """

    def __init__(self, servers: Servers, calls: CallTracker, authorization: Authorization) -> None:
        self._servers = servers
        self._calls = calls
        self._authorization = authorization
        self._lists = {
            "mcp.resources.list": "resources",
            "mcp.resources.templates.list": "templates",
            "mcp.prompts.list": "prompts",
        }
        self._actions: dict[str, Callable[[Mapping[str, Any], str | None], Binding]] = {
            "mcp.resources.read": self._read,
            "mcp.prompts.get": self._get,
            "mcp.completion.complete": self._complete,
            "mcp.logging.setLevel": self._set_level,
            "mcp.subscriptions.listen": self._listen,
            "mcp.tasks.get": self._task("tasks/get"),
            "mcp.tasks.update": self._task("tasks/update"),
            "mcp.tasks.cancel": self._task("tasks/cancel"),
            "mcp.requests.cancel": self._cancel,
            "mcp.tools.approve": self._approve,
        }

    @property
    def actions(self) -> tuple[str, ...]:
        """Every action besides those of tools."""
        return (*self._lists, *self._actions)

    def resolve(self, action: str, payload: Any, server: str | None) -> Resolution | None:
        """
        Find what an action names; see :meth:`agtphost.iagtp.IPayloadAdapter.resolve`.

        :return: None for an unknown action.
        """
        given = {} if payload is None else payload
        if action not in self._lists and action not in self._actions:
            return None
        if type(given) is not dict:
            raise payload_refusal(f"The payload of {action} must be an object.")
        if server is None and "server" in given:
            server = text(given, "server")
            self.require(server)
        if action in self._lists:
            servers = list(self._servers.values()) if server is None else [self._servers[server]]
            handler = ResourceList(servers, self._lists[action], self.binding_of, strict=server is not None)
            return Resolution(binding=replace(_local(action, handler), listing=True), input=given)
        return Resolution(binding=self._actions[action](given, server), input=given)

    def find_listed(self, allows: Callable[[Binding], bool]) -> Iterator[str]:
        """Yield the resources, templates and prompts that are known and allowed, and servers whose others would be."""
        for name, server in self._servers.items():
            for kind in self._lists.values():
                for key in ("", *server.resources.get_known(kind)):
                    binding = self.binding_of(server, kind, key)
                    if binding is not None and allows(binding):
                        yield f"{name} {kind} {key}"

    def require(self, server: str) -> None:
        """
        Check that a server is hosted here.

        :raises Refusal: 404 for an unknown server.
        """
        if server not in self._servers:
            raise unknown_server(self._servers)

    def binding_of(self, server: McpServer, kind: str, key: str) -> Binding | None:
        """Return the binding for reading an entry of a list; None where the operator turned it off."""
        if server.catalogue.is_off:
            return None
        handler = McpRequest(server, "", {}, key)
        if kind == "prompts":
            return _bind_allowed(server, handler, "prompt", key, server.settings.prompts)
        return _bind_allowed(server, handler, "resource", key, server.settings.resources)

    # Resources

    def _read(self, payload: Mapping[str, Any], server: str | None) -> Binding:
        uri = text(payload, "uri")
        meta, again = table(payload, "_meta"), read_repetition(payload)

        def reading(found: McpServer) -> IBuiltInHandler:
            return McpRequest(found, "resources/read", {"uri": uri}, uri, meta, again)

        return self._of_resource(uri, server, reading)

    def _of_resource(self, uri: str, server: str | None, asking: Callable[[McpServer], IBuiltInHandler]) -> Binding:
        """Return the binding of what a URI names, at the named server or at the one that has it."""
        if server is not None:
            found = self._servers[server]
            return self._resource(found, uri, asking(found))
        if _ambiguous(uri) and any(each.settings.resources for each in self._servers.values()):
            raise Refusal(Reason.RESOURCE_URI_AMBIGUOUS)
        able = [each for each in self._servers.values() if _may_have(each, "resources")]
        having = (
            [each for each in able if uri in each.resources.get_known("resources")]
            or [each for each in able if uri in each.resources.get_known("templates")]
            or [each for each in able if any(fits(template, uri) for template in each.resources.get_known("templates"))]
        )

        def unknown(_: Admits) -> Refusal:
            return Refusal(
                Reason.UNKNOWN_RESOURCE,
                "No hosted MCP server lists that resource, or a template that it follows.",
                remedy='If a server has it all the same, name it: EXECUTE /mcp/SERVER, or "server" in the payload.',
                details={"candidates": sorted(each.settings.name for each in able)},
            )

        bindings = [_bind_allowed(each, asking(each), "resource", uri, each.settings.resources) for each in having]
        binding = self._of_several(uri, able, having, bindings, Reason.AMBIGUOUS_RESOURCE, unknown)
        return self._resource(able[0], uri, asking(able[0])) if binding is None else binding

    def _of_several(
        self,
        name: str,
        able: Sequence[McpServer],
        having: Sequence[McpServer],
        bindings: Sequence[Binding | None],
        ambiguous: Reason,
        unknown: Callable[[Admits], Refusal],
    ) -> Binding | None:
        """
        Decide what a name without a server means.

        :param able: the servers that may have such things.
        :param having: those of them that list it.
        :param bindings: its binding at each of ``having``; None where it is off.
        :return: None where only one server is able: it is asked even if it does not list the name.
        :raises Refusal: no server is able.
        """
        if not able:
            prompt = ambiguous is Reason.AMBIGUOUS_PROMPT
            raise Refusal(
                Reason.UNKNOWN_PROMPT if prompt else Reason.UNKNOWN_RESOURCE,
                f"No hosted MCP server has such a {'prompt' if prompt else 'resource'}.",
            )
        if len(able) == 1:
            return None
        if len(having) > 1:
            there = [(each.settings.name, found) for each, found in zip(having, bindings, strict=True) if found]
            return bare_binding(able, name, tell_ambiguity(ambiguous, there, unknown))
        bare = bare_binding(able, name, unknown)
        found = bindings[0] if bindings else None
        return bare if found is None else hide_behind(found, bare)

    def _resource(self, server: McpServer, uri: str, handler: IBuiltInHandler) -> Binding:
        overrides = server.settings.resources
        if overrides and _ambiguous(uri):
            # Overrides match by how a URI begins, so there must be only one way to write the URI.
            raise Refusal(Reason.RESOURCE_URI_AMBIGUOUS)
        binding = _bind_allowed(server, handler, "resource", uri, overrides)
        if binding is None:
            raise Refusal(Reason.UNKNOWN_RESOURCE, "No hosted MCP server has that resource.")
        return binding

    # Prompts

    def _get(self, payload: Mapping[str, Any], server: str | None) -> Binding:
        arguments, meta, again = table(payload, "arguments"), table(payload, "_meta"), read_repetition(payload)

        def getting(found: McpServer, name: str) -> IBuiltInHandler:
            params = {"name": name, "arguments": arguments}
            return McpRequest(found, "prompts/get", params, name, meta, again)

        return self._of_prompt(text(payload, "prompt" if "prompt" in payload else "name"), server, getting)

    def _of_prompt(self, name: str, server: str | None, asking: Callable[[McpServer, str], IBuiltInHandler]) -> Binding:
        """Return the binding of a prompt, at the named server or at the one that has it."""
        prefix, dot, rest = name.partition(".")
        if server is None and dot and rest and prefix in self._servers:
            server = prefix
        if server is not None:
            found, name = self._servers[server], rest if dot and prefix == server and rest else name
            return self._prompt(found, name, asking(found, name))
        able = [each for each in self._servers.values() if _may_have(each, "prompts")]
        having = [each for each in able if name in each.resources.get_known("prompts")]

        def unknown(_: Admits) -> Refusal:
            return Refusal(Reason.AMBIGUOUS_PROMPT, details={"candidates": sorted(each.settings.name for each in able)})

        bindings = [_bind_allowed(each, asking(each, name), "prompt", name, each.settings.prompts) for each in having]
        binding = self._of_several(name, able, having, bindings, Reason.AMBIGUOUS_PROMPT, unknown)
        return self._prompt(able[0], name, asking(able[0], name)) if binding is None else binding

    def _prompt(self, server: McpServer, name: str, handler: IBuiltInHandler) -> Binding:
        rules, listed = server.settings.prompts, server.resources.get_known("prompts")
        binding = _bind_allowed(server, handler, "prompt", name, rules)
        # Where a prompt is turned off, the server is not asked for unlisted ones: its answer would reveal the
        # difference.
        hides = any(not each.enabled for each in rules.values())
        if binding is None or (hides and listed and name not in listed):
            raise Refusal(Reason.UNKNOWN_PROMPT)
        return binding

    # The rest

    def _complete(self, payload: Mapping[str, Any], server: str | None) -> Binding:
        ref, argument = table(payload, "ref"), table(payload, "argument")
        if type(argument.get("name")) is not str or type(argument.get("value")) is not str:
            raise payload_refusal("The payload's argument must have a name and a value, both texts.")
        params: dict[str, Any] = {"argument": dict(argument)}
        if "context" in payload:
            params["context"] = table(payload, "context")
        if ref.get("type") == "ref/prompt":

            def completing(found: McpServer, name: str) -> IBuiltInHandler:
                return McpRequest(found, "completion/complete", {**params, "ref": {**ref, "name": name}}, name)

            return self._of_prompt(text(ref, "name"), server, completing)
        if ref.get("type") == "ref/resource":
            uri = text(ref, "uri")
            params["ref"] = dict(ref)
            return self._of_resource(uri, server, lambda found: McpRequest(found, "completion/complete", params, uri))
        raise payload_refusal("The payload's ref must have the type ref/prompt or ref/resource.")

    def _set_level(self, payload: Mapping[str, Any], server: str | None) -> Binding:
        level = text(payload, "level")
        if level not in LEVELS:
            raise payload_refusal(f"The payload's level {level[:64]!r} is unknown.", f"Use one of {', '.join(LEVELS)}.")
        servers = list(self._servers.values()) if server is None else [self._servers[server]]
        told = (self._calls.set_level, *(each.sharing.set_level for each in servers))
        return _local("mcp.logging.setLevel", SetLevel(told, level))

    def _listen(self, payload: Mapping[str, Any], server: str | None) -> Binding:
        wanted = table(payload, "notifications")
        lists = frozenset(name for name in LIST_CHANGES.values() if wanted.get(name) is True)
        uris = wanted.get("resourceSubscriptions", [])
        if type(uris) is not list or len(uris) > MOST_URIS:
            raise payload_refusal(
                f"The payload's notifications.resourceSubscriptions must be a list of at most {MOST_URIS} URIs."
            )
        seconds = payload.get("seconds", 300)
        if type(seconds) not in (int, float) or not 0 < seconds <= LONGEST_SECONDS:
            raise payload_refusal(f"The payload's seconds must be a number above 0, at most {LONGEST_SECONDS}.")
        optional = payload.get("optional") is True
        watched: dict[tuple[str, str], Binding] = {}
        for given in uris:
            try:
                binding = self._bind_watched(given, server)
            except Refusal as refusal:
                if optional and refusal.reason is not Reason.INVALID_PAYLOAD:
                    continue
                raise
            if binding.missing is None:
                watched[binding.extra["mcp_server"], binding.extra["mcp_resource"]] = binding
            elif not optional:
                return binding
        servers = list(self._servers.values()) if server is None else [self._servers[server]]
        found = {each: frozenset(uri for name, uri in watched if name == each.settings.name) for each in servers}
        chosen = [(each, lists, found[each]) for each in servers if lists or found[each]]
        # Where they are optional, the handler leaves out those that the caller may not read.
        bindings = () if optional else tuple(watched.values())
        handler = ListenForChanges(chosen, float(seconds), self._calls.listening, watched if optional else {})
        binding = _local("mcp.subscriptions.listen", handler)
        return replace(
            binding,
            timeout=seconds + 10.0,
            parts=bindings,
            alike=next((each.alike for each in bindings if each.alike is not None), None),
            required_scopes=tuple(dict.fromkeys(scope for each in bindings for scope in each.required_scopes)),
            min_assurance=max((each.min_assurance for each in bindings), default=Assurance.HEADER),
        )

    def _bind_watched(self, given: object, server: str | None) -> Binding:
        """
        Return the binding of a resource that a subscription names.

        :raises Refusal: 422 for a malformed entry; as for reading the resource.
        """
        entry = {"uri": given} if type(given) is str else given
        if type(entry) is not dict:
            raise payload_refusal(
                "Each entry of notifications.resourceSubscriptions must be a URI, or an object of uri and server."
            )
        uri, owner = text(entry, "uri"), server
        if owner is None and "server" in entry:
            owner = text(entry, "server")
            self.require(owner)
        binding = self._of_resource(uri, owner, lambda found: McpRequest(found, "", {}, uri))
        if binding.missing is None and self._servers[binding.extra["mcp_server"]].catalogue.is_off:
            unmatched = rules_unmatched({"mcp_server": binding.extra["mcp_server"]})
            return replace(binding, missing=lambda _: unmatched)
        return binding

    def _task(self, method: str) -> Callable[[Mapping[str, Any], str | None], Binding]:
        def resolve(payload: Mapping[str, Any], server: str | None) -> Binding:
            params: dict[str, Any] = {"taskId": text(payload, "taskId")}
            if method == "tasks/update":
                params["inputResponses"] = dict(table(payload, "inputResponses"))
            handler = TaskRequest(self._calls, self._servers, method, params, server)
            return replace(_local(f"mcp.{method.replace('/', '.')}", handler), state_changing=method != "tasks/get")

        return resolve

    def _cancel(self, payload: Mapping[str, Any], server: str | None) -> Binding:
        return _local("mcp.requests.cancel", CancelCalls(self._calls, text(payload, "task_id")))

    def _approve(self, payload: Mapping[str, Any], server: str | None) -> Binding:
        handler = ApproveTool(self._servers, text(payload, "tool"), server, self._authorization)
        return approve_binding("mcp.tools.approve", "/mcp", handler)


def _local(name: str, handler: IBuiltInHandler) -> Binding:
    """
    Return the binding of an action that demands only a caller; what it shows or reaches is decided piece by piece.

    It is carried by EXECUTE, which callers known by a header reach where the operator opened one of the pieces to them.
    """
    return Binding(
        method="EXECUTE",
        path="/mcp",
        handler=handler,
        tier="B",
        name=name,
        min_assurance=Assurance.HEADER,
        piecewise=True,
        scope_status=Status.SCOPE_VIOLATION,
        state_changing=False,
    )


def _bind_allowed(
    server: McpServer, handler: IBuiltInHandler, kind: str, key: str, overrides: Mapping[str, Override]
) -> Binding | None:
    override = override_of(overrides, key)
    if override is not None and not override.enabled:
        return None
    listed = key in overrides or any(key in server.resources.get_known(name) for name in LISTS[f"{kind}s"])
    return resource_binding(server, handler, kind, key, override, listed=listed)


def _may_have(server: McpServer, capability: str) -> bool:
    terms = server.terms
    return terms is None or capability in terms.capabilities


def _ambiguous(uri: str) -> bool:
    if not uri.isascii() or not uri.isprintable() or "\\" in uri or _NEEDLESS_ESCAPE.search(uri):
        return True
    scheme, _, rest = uri.partition(":")
    if scheme != scheme.lower():
        return True
    authority = rest[2:].partition("/")[0] if rest.startswith("//") else ""
    segments = re.split(r"[/?#]", unquote(rest))
    return authority != authority.lower() or any(segment in (".", "..") for segment in segments)
