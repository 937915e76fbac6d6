"""
Calling AGTP hosts.

- :class:`Client`: for Twisted programs; :class:`agtphost.client.sync.Client`: the same for scripts;
  :class:`agtphost.client.aio.Client`: for programs on asyncio
- :mod:`.host`: :class:`Host`, one host as one caller: what ``Client.of`` makes
- :mod:`.target`, :mod:`.local_host`, :mod:`.local_identities`: which host, as whom, trusting what: from a
  ``host.toml``, a profile or a URI
- :mod:`.tools`: :class:`Tool` and :class:`ToolResult`
- :mod:`.reply`: :class:`Reply`, one answer
- :mod:`.approvals`: :class:`PendingApproval`, what a person has to decide before a call is made
- :mod:`.printed_answer`: an answer over HTTP as a terminal shows it, read for the record in it
- :mod:`.verification`: :class:`Verification`, whether its record is genuine
- :mod:`.catalogs`: which version of the method catalog client and server use
- :mod:`.manifests`: :class:`.manifests.ServerManifest`, and when it has to be read again
- :mod:`.location`, :mod:`.resolution`: what a URI addresses; :class:`.resolution.Resolution`, whether it is to be
  believed
- :mod:`.blocking_https`: one document over HTTPS where no reactor runs
- :mod:`.bootstrap`: what a domain says over HTTPS of where its AGTP endpoint is
- :mod:`.errors`: :class:`ClientError` and its kinds: calls without an answer
- :mod:`.requests`, :mod:`.conversation`, :mod:`.delivery`, :mod:`.retries`, :mod:`.caller`, :mod:`.pool`, :mod:`.tls`:
  what all clients are made of, without I/O
- :mod:`.connection`, :mod:`.tls_context`: the Twisted client's connections; :mod:`.blocking_connection`: the blocking
  client's; :mod:`.aio_connection`: the asyncio client's
- :mod:`.quic`: calls over QUIC
- :mod:`.carriers`: where QUIC or TLS is used, if the client may choose; :mod:`.carrier_race`, :mod:`.tcp_rival`: trying
  both; :mod:`.tcp_attempts`, :mod:`.address_race`, :mod:`.aio_attempts`, :mod:`.twisted_attempts`: connecting to one of
  a name's addresses; :mod:`.attempts`: what these share; :mod:`.cache_files`: what commands leave for later ones;
  :mod:`.deadline`: how long a call may take
- :mod:`.tracing`: the trace of the program that calls, where it uses OpenTelemetry
- :mod:`.terminal`: text of others, made safe to print
- :mod:`.bootstrap_fetch`: fetching a bootstrap document with the Twisted client: one bounded GET, nothing followed,
  everything verified
- :mod:`.call_flow`: what all clients do, from a call to its reply; :mod:`.connections`: the connections for that;
  :mod:`.async_calls`: what the clients with an event loop have in common; :mod:`.client`: the Twisted client
- :mod:`.supported_methods`: what servers offer, by the ``Supported-Methods`` of the first answer on a
  connection
- :mod:`.mcp`: a host's tools, resources and prompts for agent frameworks that take a session of MCP
- :mod:`.service_documents`: what a server says of its endpoints, examined before it is used; :mod:`.confirmation`:
  asking before what cannot be undone
- :mod:`.purchase`: :class:`Buyer`, who verifies a merchant before PURCHASE goes out
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from agtphost.client.approvals import PendingApproval
from agtphost.client.confirmation import Consequence
from agtphost.client.errors import (
    AgentGone,
    ApprovalRequired,
    CallRefused,
    CannotConnect,
    CatalogMismatch,
    ClientError,
    ConnectionLost,
    HandshakeEnded,
    InvalidCall,
    NotConfirmed,
    ProtocolBroken,
    Timeout,
    TLSRefused,
    ToolFailed,
    UnverifiedRecord,
    VerificationFailed,
)
from agtphost.client.reply import Reply
from agtphost.client.requests import new_session_id
from agtphost.client.tools import Tool, ToolResult
from agtphost.client.verification import Check, Verification

if TYPE_CHECKING:
    from agtphost.client.client import Client
    from agtphost.client.host import Host
    from agtphost.client.purchase import Buyer, Counterparty, CounterpartyUnverified

__all__ = [
    "AgentGone",
    "ApprovalRequired",
    "Buyer",
    "CallRefused",
    "CannotConnect",
    "CatalogMismatch",
    "Check",
    "Client",
    "ClientError",
    "ConnectionLost",
    "Consequence",
    "Counterparty",
    "CounterpartyUnverified",
    "HandshakeEnded",
    "Host",
    "InvalidCall",
    "NotConfirmed",
    "PendingApproval",
    "ProtocolBroken",
    "Reply",
    "TLSRefused",
    "Timeout",
    "Tool",
    "ToolFailed",
    "ToolResult",
    "UnverifiedRecord",
    "Verification",
    "VerificationFailed",
    "new_session_id",
]


_MODULES = {
    "Buyer": "purchase",
    "Client": "client",
    "Counterparty": "purchase",
    "CounterpartyUnverified": "purchase",
    "Host": "host",
}


def __getattr__(name: str) -> Any:
    """Import the Twisted client and the buyer when asked for: scripts with the blocking client need no Twisted."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"agtphost.client.{_MODULES[name]}"), name)
