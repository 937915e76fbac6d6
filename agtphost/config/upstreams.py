"""The keys of every upstream, and ``[[mcp.server]]``: the MCP servers a host carries on EXECUTE."""

from __future__ import annotations

import ipaddress
import re
import sys
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from agtphost.config import secret
from agtphost.config.secret import Secret
from agtphost.config.values import (
    Digest,
    FilePath,
    HeaderValue,
    InlineOrSecret,
    Items,
    LoadContext,
    MinAssurance,
    Scope,
    Seconds,
    SecretReference,
    Section,
    Table,
    beside_file,
    form,
    load_context,
)
from agtphost.identity.peer import Assurance
from agtphost.identity.required_assurance import upstream_assurance
from agtphost.vocabulary.addresses import is_loopback

PYTHON = "{python}"
"""In any element of a command: the interpreter that runs the host."""

_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,128}", re.ASCII)
_OWN_HEADERS = frozenset({"host", "content-length", "content-type", "accept", "transfer-encoding", "connection"})


def _command(value: Any, info: ValidationInfo) -> tuple[str, ...]:
    if isinstance(value, tuple):
        return value
    if isinstance(value, str):
        raise ValueError('must be a list of arguments, such as ["npx", "server"]; no shell reads it')
    if not isinstance(value, list) or not all(isinstance(part, str) and "\0" not in part for part in value):
        raise ValueError("must be a list of text arguments")
    if not value or not value[0]:
        raise ValueError("must not be empty")
    program, *words = value
    return (_program(program, load_context(info)), *(word.replace(PYTHON, sys.executable) for word in words))


def _program(name: str, context: LoadContext) -> str:
    """
    Return the path of a program: with a slash in its name it is relative to the TOML file; without, it is searched on
    PATH.
    """
    if name == PYTHON:
        return sys.executable
    return str(context.folder / Path(name).expanduser()) if "/" in name else name


def web_url(value: Any) -> str:
    """Check that a URL is https, or http to a loopback address of this machine, and return it."""
    text = secret.text_of(value)
    if not text.isascii() or not text.isprintable() or any(character in text for character in ' "<>\\^`{|}'):
        raise ValueError("must be an http or https URL")
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError("must be an http or https URL") from None
    if parts.scheme not in ("http", "https") or not host or parts.netloc.endswith(":"):
        raise ValueError("must be an http or https URL")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not contain a user name or password; use bearer")
    if parts.fragment:
        raise ValueError("must not contain a fragment")
    if parts.scheme == "http" and not _is_loopback(host):
        raise ValueError("must be https, except on this machine's own loopback addresses")
    return text


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return is_loopback(ipaddress.ip_address(host))
    except ValueError:
        return False


def header_name(value: str) -> str:
    """
    Check that an operator may set a header field, and return it.

    :raises ValueError: one that the host writes itself, or none.
    """
    lower = value.lower()
    if _HEADER_NAME.fullmatch(value) is None or lower in _OWN_HEADERS or lower.startswith("mcp-"):
        raise ValueError("is not a header that can be set here")
    return value


def _root(value: str) -> str:
    if not value.startswith("file://"):
        raise ValueError(f"holds {value[:64]!r}, which is not a file:// URI")
    return value


def _isolation(value: Any) -> str:
    if value not in ("auto", "shared", "per-agent", "per-session"):
        raise ValueError('must be "auto", "shared", "per-agent" or "per-session"')
    return str(value)


class UpstreamSection(Section):
    """The keys of every upstream."""

    name: Annotated[
        str,
        form(
            "[a-z0-9][a-z0-9_-]{0,31}",
            "must be 1 to 32 lower-case letters, digits, '-' or '_', and begin with a letter or digit",
        ),
    ] = ""
    """Required, unique among its kind. The prefix of an MCP server's tools."""

    timeout: Seconds = 60.0
    """Of one call, waiting for its turn included."""

    start_timeout: Seconds = 30.0
    """Seconds until the upstream must have introduced itself and listed what it has."""

    max_concurrency: Annotated[int, Field(ge=1, le=10_000)] = 16
    """Calls that the upstream runs in parallel; one caller has three quarters of them at most."""

    max_queue: Annotated[int, Field(ge=0, le=100_000)] = 64
    """Calls that may wait for their turn; one more is refused with 429."""

    start: Literal["eager", "lazy"] = "eager"
    """Whether the upstream is started, or asked what it is, with the host or by the first call."""

    bearer: SecretReference | None = None
    """Sent as ``Authorization: Bearer`` to the url."""

    headers: Table[Annotated[str, AfterValidator(header_name)], HeaderValue] = Field(default_factory=dict)
    """Sent with every request to the url."""

    ca: FilePath | None = None
    """PEM file of the only authorities trusted for the url; None: this machine's."""

    def opened_headers(self) -> dict[str, str]:
        """Return the header fields of every request, secrets opened: for the one place that sends them."""
        bearer = {} if self.bearer is None else {"Authorization": f"Bearer {self.bearer.reveal()}"}
        return {name: value.reveal() for name, value in self.headers.items()} | bearer

    def secrets(self) -> tuple[str, ...]:
        """Return the values that must not be logged; a bearer token may occur with or without its scheme."""
        values = self.opened_headers().values()
        return (*values, *(value.rpartition(" ")[2] for value in values))


class Override(Section):
    """``[mcp.server.resources."URI"]`` or ``[mcp.server.prompts.NAME]``: what the operator decides about one."""

    scopes: Items[Scope] | None = None
    """None: the server's."""

    min_assurance: MinAssurance | None = None
    """None: the server's (design decision 4)."""

    enabled: bool = True
    """False: it does not exist as far as callers can tell."""


class ToolOverride(Override):
    """
    The section ``[mcp.server.tools.NAME]``: what the operator decides about one tool; it wins over its annotations.
    """

    impact: Literal["informational", "reversible", "irreversible"] | None = None
    """None: as the tool's annotations say."""

    approval: Literal["required"] | None = None
    """``required``: a person approves each call; None: as the server says."""


class OAuthClient(Section):
    """The section ``[mcp.server.oauth]``: how the host gets its own token for the url (RFC 6749 section 4.4)."""

    token_url: Annotated[str, BeforeValidator(web_url)] = ""
    """Required."""

    client_id: str = ""
    """Required."""

    client_secret: SecretReference = Secret("")
    """Required."""

    scope: str = ""
    """The OAuth scopes to ask for, with spaces between; empty: none are named."""

    resource: str = ""
    """The audience to ask for (RFC 8707)."""

    @model_validator(mode="after")
    def _complete(self) -> OAuthClient:
        if not (self.token_url and self.client_id and self.client_secret.reveal()):
            raise ValueError("needs token_url, client_id and client_secret")
        return self


class MCPServerSection(UpstreamSection):
    """An entry of ``[[mcp.server]]``: an MCP server, a command over stdio or a url over Streamable HTTP."""

    command: Annotated[tuple[str, ...] | None, BeforeValidator(_command)] = None
    """Program and arguments of a stdio server; ``{python}`` in any of them is the interpreter that runs the host."""

    url: Annotated[str | None, BeforeValidator(web_url)] = None
    """Of a Streamable HTTP server. Exactly one of command and url is set."""

    cwd: FilePath = beside_file()
    """Working directory of the command."""

    env: Table[
        Annotated[str, form("[A-Za-z_][A-Za-z0-9_]*", "is not the name of an environment variable")], InlineOrSecret
    ] = Field(default_factory=dict)
    """Added to the few variables every child gets."""

    min_assurance: MinAssurance | None = None
    """
    How surely its callers must be known, unless the called tool has its own setting.

    None: by certificate, and by ``gateway`` (a token or a certificate) for resources, prompts and tools whose
    ``impact`` the operator calls informational. A development host on loopback takes ``gateway`` for all.
    """

    approval: Literal["required", "irreversible"] | None = None
    """
    Of which tools a person approves each call: all, or those whose impact is irreversible; None: as ``[approvals]``
    says, and of none else.
    """

    scopes: Items[Scope] = ("mcp:tools:execute",)
    """What its callers must hold, where a tool says nothing else."""

    input_timeout: Seconds | None = None
    """A stdio server that has read nothing of what it was sent for so long is restarted; None: as long as timeout."""

    protocol: Literal["auto", "2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"] = "auto"
    """``auto``: ask the server."""

    pins: Table[str, Digest] = Field(default_factory=dict)
    """Approved definition digests by tool name; without one, the first listing is what is approved."""

    unmatched_rules: Literal["off", "warn"] | None = None
    """
    Of names in ``tools`` and ``pins`` that no listed tool has: ``off`` keeps all tools of the server off, ``warn``
    tells them and goes on; None: ``off`` in production, ``warn`` in development.
    """

    isolation: Annotated[Literal["auto", "shared", "per-agent", "per-session"], BeforeValidator(_isolation)] = "auto"
    """
    Who shares a process, or an HTTP session: everyone, the calls of one agent, or those of one of its sessions.

    ``auto``: everyone, but a session that can be asked for input has its own where that takes a handshake.
    """

    max_instances: Annotated[int, Field(ge=1, le=10_000)] = 32
    """Isolated processes or HTTP sessions at a time."""

    idle_stop: Seconds = 600.0
    """Without a call for so long, an isolated process or HTTP session is ended."""

    oauth: OAuthClient | None = None
    """Where the bearer token of the url comes from."""

    roots: Items[Annotated[str, AfterValidator(_root)]] | None = None
    """``file://`` URIs that answer ``roots/list``; None: the caller is asked."""

    resource_scopes: Items[Scope] = ("mcp:resources:read",)
    """What callers must hold to read its resources."""

    prompt_scopes: Items[Scope] = ("mcp:prompts:get",)
    """What callers must hold to get its prompts."""

    resources: Table[str, Override] = Field(default_factory=dict)
    """Overrides by URI, or by what a URI begins with and a ``*``."""

    prompts: Table[str, Override] = Field(default_factory=dict)
    """Overrides by prompt name."""

    validate_output: bool = False
    """Whether results are checked against the output schema that the tool declares."""

    tools: Table[str, ToolOverride] = Field(default_factory=dict)
    """Overrides by tool name."""

    def least_assurance(self, override: Override | None, floor: Assurance, *, changes: bool) -> Assurance:
        """
        Return how surely a caller must be known: as the override says, the server, or the default.

        :param override: what the operator says of the one thing that is called; None: nothing.
        :param floor: what changes state takes on this host, where the operator wrote nothing.
        :param changes: whether it counts as changing state.
        """
        if override is not None and override.min_assurance is not None:
            return override.min_assurance
        return upstream_assurance(floor, changes=changes) if self.min_assurance is None else self.min_assurance

    @property
    def tool_scopes(self) -> frozenset[str]:
        """Every scope that one of its tools asks for, as far as the operator decides it."""
        own = (tool.scopes for tool in self.tools.values() if tool.enabled and tool.scopes is not None)
        return frozenset(self.scopes).union(*own)

    def opened_env(self) -> dict[str, str]:
        """Return the variables of ``env``, secrets opened: for the child process alone."""
        return {name: value.reveal() for name, value in self.env.items()}

    def secrets(self) -> tuple[str, ...]:
        own = () if self.oauth is None else (self.oauth.client_secret.reveal(),)
        return (*super().secrets(), *self.opened_env().values(), *own)
