"""``[mcp.front]``: where MCP clients reach this host without a bridge, each as an agent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import BeforeValidator, Field

from agtphost.config.faults import ConfigFault
from agtphost.config.http import HttpSection, accepts_certificates, listener_of
from agtphost.config.upstreams import MCPServerSection
from agtphost.config.values import Items, Line, Section, Text, form
from agtphost.config.web_upstreams import base_url
from agtphost.vocabulary.tomltext import Location

LONGEST_WAIT = 86_400.0
"""Seconds that a call may wait for a person."""


class MCPFront(HttpSection):
    """
    The section ``[mcp.front]``: an MCP server over Streamable HTTP for many clients, each with what its agent may use.

    The caller is identified by a token of ``[[http.client]]``, by a client certificate, or by an identity provider's
    token.
    """

    path: Annotated[str, Text, form(r"(/[a-z0-9][a-z0-9._-]{0,31}){1,4}", 'must be a path, such as "/mcp"')] = "/mcp"
    """The endpoint of all servers, whose tools are ``SERVER__TOOL``; below it each server has a separate one."""

    anonymous: Line = ""
    """The agent in whose name clients without a credential call, by name or Agent-ID; empty: they are answered 401."""

    agent: Line = ""
    """
    The agent in whose name clients with a token of ``[[policies.oauth.issuer]]`` call; the token says on whose behalf.
    ``anonymous`` serves for that too.
    """

    client_certificates: bool = True
    """
    Ask clients for a certificate of ``[tls] client_ca``; one with an AGTP identity makes its agent the caller. Without
    ``ssl`` in ``listen`` they are not asked.
    """

    url: Annotated[str | None, BeforeValidator(base_url)] = None
    """How clients reach it, without the path; None: by the address that they ask for."""

    approval_wait: Annotated[float, Field(ge=0, le=LONGEST_WAIT)] = 0.0
    """
    Seconds for which a call that a person has to approve waits for that, with progress messages; then it is answered
    that it is held.
    """

    search: bool = False
    """
    Show ``search_tools`` and ``call_tool`` in place of all tools: a model finds what its agent may call by saying what
    it wants, and reads no other definition.
    """

    def public_base(self, server_id: str) -> str:
        """
        Return the address at which clients find the front, without the path.

        :param server_id: the host's name, for a listener without an address.
        """
        if self.url is not None:
            return self.url
        listener = listener_of(self.listen or "")
        address = listener.interface.replace("\\", "") or server_id
        scheme = "https" if listener.secure else "http"
        return f"{scheme}://{f'[{address}]' if ':' in address else address}:{listener.port}"

    @property
    def speaker(self) -> str:
        """The agent in whose name those call that are not agents themselves."""
        return self.anonymous or self.agent


class MCP(Section):
    """The section ``[mcp]``: the MCP servers behind this host, and where MCP clients reach it."""

    server: Items[MCPServerSection] = ()
    front: MCPFront = Field(default_factory=MCPFront)


def mcp_front_faults(given: MCPFront, *, holders: bool, issuers: bool, client_auth: str) -> Iterator[ConfigFault]:
    """
    Check rules that span several keys of ``[mcp.front]``, besides those of all HTTP listeners.

    :param holders: whether there is an ``[[http.client]]``.
    :param issuers: whether an identity provider is trusted.
    :param client_auth: of ``[tls]``.
    """
    where: Location = ("mcp", "front")
    if given.listen is None:
        if given.model_fields_set:
            yield ConfigFault(location=(*where, "listen"), message="is missing", hint='such as listen = "ssl:8443"')
        return
    if (given.certificate is None) != (given.key is None):
        yield ConfigFault(
            location=where, message="needs both certificate and key, or neither", hint="leave certificate and key out"
        )
    if given.anonymous and given.agent:
        yield ConfigFault(
            location=(*where, "agent"),
            message="cannot be combined with anonymous, which names the agent of unknown clients",
            hint="leave one of them out",
        )
    if given.agent and not issuers:
        yield ConfigFault(
            location=(*where, "agent"),
            message="accepts tokens of identity providers, but this host trusts none",
            hint="add [[policies.oauth.issuer]]; or remove it",
        )
    if not (given.speaker or holders or accepts_certificates(given.listen, given.client_certificates, client_auth)):
        yield ConfigFault(
            location=where,
            message="has no clients, so no call would be possible",
            hint="add [[http.client]] with a token and an agent; docs/mcp-front.rst shows how",
        )
