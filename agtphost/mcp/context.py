"""A request of an MCP client, with the client's conversation and the channel back to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from twisted.internet.defer import Deferred

from agtphost.client.requests import new_session_id
from agtphost.mcp import revisions
from agtphost.mcp.messages import HEADER_MISMATCH, METHOD_NOT_FOUND, MISSING_CAPABILITY, McpFault, RequestId
from agtphost.mcp.request_checks import decode_field
from agtphost.mcp.revisions import CAPABILITIES, CLIENT_INFO, DEFAULT_LEVEL, LEVELS, LOG_LEVEL, TASKS, VERSION

Fields = Callable[[str], Sequence[str]]
"""Returns the values of a field of an HTTP request, by its name in lower case."""

_CONNECTIONS_OWN = frozenset({"progressToken", VERSION, CLIENT_INFO})
"""Members of ``_meta`` that concern only the client's connection."""


class Channel(Protocol):
    """The channel back to a client, besides the answer of one request."""

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification; it is dropped if the client has left."""

    def ask(self, method: str, params: Mapping[str, Any]) -> Deferred[Mapping[str, Any]]:
        """
        Send the client a request, which only the handshake era has.

        :raises McpFault: the client's error, if it answers with one.
        """


@dataclass(kw_only=True, eq=False)
class ClientConversation:
    """A client's state: a session of the handshake era, or all of a caller's requests of the later one."""

    session_id: str = field(default_factory=new_session_id)
    """Its Session-ID at the host."""

    level: str | None = None
    """The least log level wanted; None: the default."""

    watched: set[str] = field(default_factory=set)
    """Resources that it subscribed to."""

    capabilities: Mapping[str, Any] = field(default_factory=dict)
    """The capabilities that a client of the handshake era declared."""

    roots: Mapping[str, Any] | None = None
    """The last answer of a client of the handshake era to ``roots/list``; None: none yet, or they changed since."""

    roots_changes: int = 0
    """How often the client announced a change of its roots."""


@dataclass(kw_only=True, slots=True, eq=False)
class Context:
    """A request of a client."""

    method: str
    params: Mapping[str, Any]
    request_id: RequestId | None
    revision: str
    conversation: ClientConversation
    channel: Channel
    fields: Fields | None = None
    """The fields of its HTTP request; None where it came on stdin."""

    octets: int | None = None
    """Octets of the answer of the host that its result is made of; None for a result that is made of something else."""

    modern: bool = field(init=False)
    """Whether it is of 2026-07-28: no handshake, no requests to the client."""

    def __post_init__(self) -> None:
        self.modern = self.revision == revisions.MODERN

    @property
    def meta(self) -> Mapping[str, Any]:
        """The request's ``_meta``, or an empty mapping."""
        given = self.params.get("_meta")
        return given if isinstance(given, dict) else {}

    def progress(self, progress: Any, total: Any = None, message: Any = None) -> None:
        """Send progress, if its client asked for that."""
        token = self.meta.get("progressToken")
        if isinstance(token, str) or type(token) is int:
            said = {"progressToken": token, "progress": progress, "total": total, "message": message}
            self.channel.notify(
                "notifications/progress", {name: value for name, value in said.items() if value is not None}
            )

    def forwarded_meta(self) -> dict[str, Any]:
        """
        Return the ``_meta`` for the host: the client's, without what concerns its connection.

        A client of the handshake era declared once what it can do and which log messages it wants. At the host every
        request declares that, and the client's revision: a server that supports several asks in the manner of that one.
        """
        meta = {name: value for name, value in self.meta.items() if name not in _CONNECTIONS_OWN}
        if not self.modern:
            known = self.conversation.capabilities
            meta[VERSION] = self.revision
            meta[LOG_LEVEL] = self.conversation.level or DEFAULT_LEVEL
            meta[CAPABILITIES] = {name: known[name] for name in ("sampling", "elicitation", "roots") if name in known}
        return meta

    def wants_log(self, level: object) -> bool:
        """Return whether the client wants log messages of a level, by its request or its conversation."""
        least: Any = self.meta.get(LOG_LEVEL) if self.modern else self.conversation.level or DEFAULT_LEVEL
        return least in LEVELS and level in LEVELS and LEVELS.index(str(level)) >= LEVELS.index(least)

    def require_tasks(self) -> None:
        """
        Check that a request may use the tasks extension.

        :raises McpFault: -32601 before 2026-07-28; -32021 if the client does not declare the extension; -32020 if the
            ``Mcp-Name`` of its HTTP request is not the task (SEP-2663).
        """
        if not self.modern:
            raise McpFault(METHOD_NOT_FOUND, "Method not found", self.method)
        declared = self.meta.get(CAPABILITIES)
        extensions = declared.get("extensions") if isinstance(declared, dict) else None
        if not isinstance(extensions, dict) or TASKS not in extensions:
            needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
            raise McpFault(MISSING_CAPABILITY, f"This needs the extension {TASKS}.", needed)
        if self.fields is not None:
            named = self.fields("mcp-name")
            if len(named) != 1 or decode_field(named[0].strip()) != self.params.get("taskId"):
                raise McpFault(HEADER_MISMATCH, "Mcp-Name is not the task of the request.")
