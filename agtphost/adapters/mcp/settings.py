"""What an operator says about one hosted MCP server: interface section 3."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from agtphost.identity.peer import Assurance
from agtphost.vocabulary import scopes

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}", re.ASCII)
_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)

IMPACTS = ("informational", "reversible", "irreversible")
"""Values of ``impact``: AGIS v01 section 6."""

PROTOCOLS = ("auto", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
"""Values of ``protocol``: ``auto`` negotiates, a date pins."""

ISOLATION = ("auto", "shared", "per-agent", "per-session")
"""Values of ``isolation``: adapters rule G3."""

Impact = Literal["informational", "reversible", "irreversible"]


@dataclass(frozen=True, kw_only=True)
class ToolOverride:
    """What the operator decides about one tool; it always wins over what the server says of itself."""

    scopes: tuple[str, ...] | None = None
    """Scopes a caller needs; None means the server's."""

    impact: Impact | None = None
    min_assurance: Assurance | None = None
    enabled: bool = True
    """False: the tool does not exist as far as callers can tell."""

    def __post_init__(self) -> None:
        _check_scopes(self.scopes or ())
        if self.impact is not None and self.impact not in IMPACTS:
            raise ValueError(f"impact is one of {', '.join(IMPACTS)}, not {self.impact!r}")


@dataclass(frozen=True, kw_only=True)
class ClientCredentials:
    """How the host gets a token of its own for an HTTP server: OAuth 2.0 client credentials (RFC 6749 section 4.4)."""

    token_url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""
    resource: str = ""
    """The audience asked for (RFC 8707); empty: not named."""

    def __post_init__(self) -> None:
        _check_endpoint(self.token_url, allow_http=False)


@dataclass(frozen=True, kw_only=True)
class McpServerSettings:
    """
    One ``[[mcp.server]]``.

    Secrets are resolved before this is built and never appear in its repr.

    :raises ValueError: from the constructor, with one sentence, for what cannot work.
    """

    name: str
    """Prefix of its tools: lower-case letters, digits, ``_`` and ``-``; at most 32."""

    command: tuple[str, ...] = ()
    """Program and arguments of a stdio server; never a shell line."""

    url: str = ""
    """Streamable HTTP endpoint; ``https``, or ``http`` on loopback."""

    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment besides the six inherited names; an entry here wins over an inherited one."""

    scopes: tuple[str, ...] = ("mcp:tools:execute",)
    timeout: float = 60.0
    """Seconds one call may take, waiting for its turn included."""

    start_timeout: float = 30.0
    """Seconds until the server must have answered the negotiation and listed its tools."""

    input_timeout: float | None = None
    """Seconds in which a stdio server has to read some of what it was sent, or it is restarted; None: ``timeout``."""

    max_concurrency: int = 16
    """Calls the server works on at once; one caller has three quarters of them at most."""

    max_queue: int = 64
    """Calls that may wait for their turn; one more is refused with 429."""

    start: Literal["eager", "lazy"] = "eager"
    protocol: str = "auto"
    min_assurance: Assurance = Assurance.CERTIFICATE
    tools: Mapping[str, ToolOverride] = field(default_factory=dict)
    """Overrides by the tool's own name."""

    unmatched_rules: Literal["off", "warn"] = "warn"
    """
    What a name in ``tools`` or ``pins`` leads to that no listed tool has: a rule that protects nothing.

    ``off``: every tool of the server is off until the name is mended.
    """

    pins: Mapping[str, str] = field(default_factory=dict)
    """Approved definition digests by tool name; without an entry the first listing is what is approved."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with every HTTP request: a bearer token, an API key."""

    ca: str | None = None
    """PEM file of the only authorities trusted for ``url``; None means the platform's."""

    oauth: ClientCredentials | None = field(default=None, repr=False)
    """Where the bearer token of ``url`` comes from; None: from ``headers``, if at all."""

    isolation: Literal["auto", "shared", "per-agent", "per-session"] = "auto"
    """
    Who shares a process, or an HTTP session: everyone, the calls of one agent, or those of one of its sessions.

    ``auto``: everyone, but a session whose caller can be asked has its own where that takes the handshake era; see
    :mod:`agtphost.adapters.mcp.sharing`.
    """

    max_instances: int = 32
    """Processes or HTTP sessions besides the one that lists are read from."""

    idle_stop: float = 600.0
    """Seconds without a call after which an isolated process or HTTP session is ended."""

    roots: tuple[str, ...] | None = None
    """``file://`` URIs that answer ``roots/list``; None: the caller is asked."""

    resource_scopes: tuple[str, ...] = ("mcp:resources:read",)
    prompt_scopes: tuple[str, ...] = ("mcp:prompts:get",)
    resources: Mapping[str, ToolOverride] = field(default_factory=dict)
    """Overrides by URI, or by what a URI begins with and a ``*``; the longest that fits wins."""

    prompts: Mapping[str, ToolOverride] = field(default_factory=dict)
    """Overrides by the prompt's own name."""

    validate_output: bool = False
    """Whether results are checked against the output schema that the tool declares."""

    allow_http: bool = False
    """Allow plain ``http`` to an address that is not loopback."""

    def __post_init__(self) -> None:
        if _NAME.fullmatch(self.name) is None:
            raise ValueError(f"{self.name!r} is not a server name (32 of a-z, 0-9, '_' and '-' at most)")
        if bool(self.command) == bool(self.url):
            raise ValueError(f"MCP server {self.name!r} needs either a command or a url")
        if self.url:
            _check_endpoint(self.url, allow_http=self.allow_http)
        if self.oauth is not None and not self.url:
            raise ValueError(f"MCP server {self.name!r} has credentials but no url")
        if self.isolation not in ISOLATION:
            raise ValueError(f"isolation is one of {', '.join(ISOLATION)}, not {self.isolation!r}")
        for name, value in self.env.items():
            if _ENVIRONMENT_NAME.fullmatch(name) is None or "\0" in value:
                raise ValueError(f"{name!r} is not an environment variable that a process can be given")
        if any("\0" in word for word in self.command):
            raise ValueError(f"the command of MCP server {self.name!r} has a NUL character")
        if self.protocol not in PROTOCOLS:
            raise ValueError(f"protocol is one of {', '.join(PROTOCOLS)}, not {self.protocol!r}")
        positive = (
            self.timeout,
            self.start_timeout,
            self.timeout if self.input_timeout is None else self.input_timeout,
            self.max_concurrency,
            self.max_queue + 1,
            self.max_instances,
            self.idle_stop,
        )
        if min(positive) <= 0:
            raise ValueError(f"timeouts and limits of MCP server {self.name!r} must be positive")
        if self.start not in ("eager", "lazy"):
            raise ValueError(f"start is 'eager' or 'lazy', not {self.start!r}")
        for tokens in (self.scopes, self.resource_scopes, self.prompt_scopes):
            _check_scopes(tokens)
        for root in self.roots or ():
            if not root.startswith("file://"):
                raise ValueError(f"{root!r} is not a file:// URI")
        _check_headers(self.headers)

    def secrets(self) -> tuple[str, ...]:
        """What must not be logged; a bearer token may show up with or without its scheme."""
        tokens = [value.rpartition(" ")[2] for value in self.headers.values()]
        own = () if self.oauth is None else (self.oauth.client_secret,)
        return (*self.env.values(), *self.headers.values(), *tokens, *own)


def _check_endpoint(url: str, *, allow_http: bool) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is not an http or https URL")
    if not url.isascii():
        raise ValueError("the url of an MCP server is ASCII; other characters are percent-encoded or xn--")
    if parts.username is not None or parts.fragment:
        raise ValueError("the url of an MCP server has no user name, password or fragment")
    if parts.scheme == "http" and not allow_http and not _loopback(parts.hostname):
        raise ValueError(f"{url!r} is not encrypted; use https, or say allow_http = true")


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_scopes(tokens: tuple[str, ...]) -> None:
    for token in tokens:
        if not scopes.is_token(token):
            raise ValueError(f"{token!r} is not a scope token")


_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+", re.ASCII)
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*", re.ASCII)
_OURS = frozenset({"host", "content-length", "content-type", "accept", "transfer-encoding", "connection"})


def _check_headers(headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        lower = name.lower()
        if _HEADER_NAME.fullmatch(name) is None or lower in _OURS or lower.startswith("mcp-"):
            raise ValueError(f"{name!r} is not a header that a configuration can set")
        if _HEADER_VALUE.fullmatch(value) is None:
            raise ValueError(f"the value of header {name!r} has characters that HTTP does not carry")
