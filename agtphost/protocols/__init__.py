"""
AGTP over TLS over TCP, the server's side: core v08 section 10.1, design decisions 2 and 3.

- :mod:`~agtphost.protocols.limits`: :class:`ConnectionLimits`, each with its reason
- :mod:`~agtphost.protocols.tls`: :class:`ServerTLS`, TLS 1.3 and client certificates
- :mod:`~agtphost.protocols.admission`: which TCP connections get a handshake
- :mod:`~agtphost.protocols.peers`: what a handshake says about the other end
- :mod:`~agtphost.protocols.automaton`: the states of a connection
- :mod:`~agtphost.protocols.connection`: :class:`ServerConnection`, which drives the wire core
- :mod:`~agtphost.protocols.driving`: runs the coroutine that answers a request
- :mod:`~agtphost.protocols.prompt`: TCP that sends at once what the system takes
- :mod:`~agtphost.protocols.server`: :class:`AGTPServerFactory`, all connections of a port
- :mod:`~agtphost.protocols.listening`: :class:`ListeningService`, which drains when it stops
"""

from agtphost.protocols.limits import ConnectionLimits
from agtphost.protocols.listening import ListeningService, server_endpoint
from agtphost.protocols.server import AGTPServerFactory
from agtphost.protocols.tls import ClientAuth, ServerTLS, TLSFiles

__all__ = [
    "AGTPServerFactory",
    "ClientAuth",
    "ConnectionLimits",
    "ListeningService",
    "ServerTLS",
    "TLSFiles",
    "server_endpoint",
]
