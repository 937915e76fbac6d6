"""
agtphost hosts MCP servers, agents and Python functions behind the Agent Transfer Protocol (AGTP).

Handler authors need only what this module exports; see :mod:`agtphost.handlers.context`.

The host itself, package by package (``docs/architecture.rst`` has the drawing):

- :mod:`.a2a`: the server side of A2A, at ``[a2a.front]``
- :mod:`.adapters`: MCP, A2A and ACP upstreams, carried on EXECUTE
- :mod:`.agis`: documents that describe a service, examined and written
- :mod:`.audit`: Attribution-Records: what was answered, to whom, provably
- :mod:`.bridge`: an AGTP host as an MCP server: what ``agtp mcp-bridge`` runs
- :mod:`.cli`: the ``agtp`` command
- :mod:`.client`: calling AGTP hosts
- :mod:`.cluster`: several hosts with one store: which one serves, and how another takes over
- :mod:`.compute`: long computations in worker processes
- :mod:`.config`: ``host.toml`` as one frozen value; the only reader of TOML and of the environment
- :mod:`.conformance`: a black-box examination of an AGTP server, over the wire
- :mod:`.contract`: what a host offers and how it decides what a request means
- :mod:`.dispatch`: the one way in and the one way out
- :mod:`.errors`: the errors that cross package boundaries
- :mod:`.extras`: packages that a plain install leaves out: the extra that brings each, and the message where one is
  missing
- :mod:`.host`: the composition root: the only place that knows concrete classes
- :mod:`.http`: HTTP surfaces
- :mod:`.http_clients`: the clients of these that the configuration lists
- :mod:`.gateway`: any HTTP client calls what is hosted here
- :mod:`.features`: what a capability that can be switched on is built from, and what it adds
- :mod:`.iagtp`: every interface of agtphost, and what each does not promise
- :mod:`.identity`: who agents are, and how that is proven
- :mod:`.logs`: the log: which lines there are, and of which call
- :mod:`.mcp`: the server side of MCP, over the way to a host that it is given
- :mod:`.methods`: the protocol's own methods, each a binding like any endpoint
- :mod:`.metrics`: what a host tells in numbers: Prometheus metrics, health, readiness
- :mod:`.negotiation`: runtime negotiation
- :mod:`.page`: the operators' page: a host in the browser, asked over AGTP
- :mod:`.plugin`: everything that a package imports which extends a host; provisional until release 0.3
- :mod:`.protocols`: AGTP over TLS over TCP, the server's side
- :mod:`.registry`: cards of what can be called here, and of agents elsewhere that registered
- :mod:`.search`: what there is, found by words and by meaning
- :mod:`.stores`: where records are kept
- :mod:`.tap`: ``twistd agtp``: options, then assembly
- :mod:`.testing`: a whole host in memory, for tests
- :mod:`.traces`: OpenTelemetry traces of calls, where ``[traces]`` is configured
- :mod:`.upstream`: what all services behind this host share, for all protocols
- :mod:`.vocabulary`: the words of the protocol: data and grammar, importing nothing
- :mod:`.witnessing`: the logs of other hosts, and this one's, kept from being rewritten
- :mod:`.wire`: AGTP framing without I/O
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agtphost.handlers.context import EndpointContext, EndpointError, EndpointResponse
    from agtphost.handlers.endpoint import endpoint

__version__ = "0.2.0"

__all__ = ["EndpointContext", "EndpointError", "EndpointResponse", "__version__", "endpoint"]

_MODULES = {
    "EndpointContext": "context",
    "EndpointError": "context",
    "EndpointResponse": "context",
    "endpoint": "endpoint",
}


def __getattr__(name: str) -> Any:
    """Import what handlers need when asked for: commands and clients start without it."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"agtphost.handlers.{_MODULES[name]}"), name)
    return value
