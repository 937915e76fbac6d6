"""
AGTP over TLS over TCP, the server's side: core v08 section 10.1, design decisions 2 and 3.

- :mod:`~agtphost.protocols.limits`: ``[limits]``, as ``ConnectionLimits``, and the bounds that no file sets
- :mod:`~agtphost.protocols.tls`: :class:`ServerTLS`, TLS 1.3 and client certificates
- :mod:`~agtphost.protocols.admission`: which TCP connections get a handshake
- :mod:`~agtphost.protocols.peers`: what a handshake says about the other end
- :mod:`~agtphost.protocols.connection_states`: the states of a connection
- :mod:`~agtphost.protocols.connection`: ``ServerConnection``, which drives the wire core
- :mod:`~agtphost.protocols.coroutines`: runs the coroutine that answers a request
- :mod:`~agtphost.protocols.periodic`: the base class of services that check something periodically
- :mod:`~agtphost.protocols.immediate_write`: TCP connections that write immediately what the system takes
- :mod:`~agtphost.protocols.server`: :class:`AGTPServerFactory`, all connections of a port
- :mod:`~agtphost.protocols.steady_timers`: timers that no jump of the system's clock moves
- :mod:`~agtphost.protocols.listener`: :class:`ListeningService`, which drains when it stops
- :mod:`.own_certificates`: the host's certificates, for handshakes that are not OpenSSL's
- :mod:`.quic`: AGTP over QUIC, where ``[quic]`` is enabled
- :mod:`.holder`: who listens on a port already
- :mod:`.listener_connections`: the connections of a listener for any protocol: admission, deadlines and closing
- :mod:`.records`: TLS that takes a whole record as a whole record
- :mod:`.openssl`: OpenSSL's own functions, for what is done with every record
- :mod:`.polling`: reading from connections in fewer steps than epoll's reactor takes
- :mod:`.output_queue`: octets that wait for a peer, long answers without a copy
- :mod:`.pacing`: handshakes, and reads of a few octets, are done for a few peers at a time
- :mod:`.peer_liveness`: whether a peer reads what it is sent: what its system has acknowledged, where ours says so
"""

from agtphost.protocols.limits import ConnectionLimits
from agtphost.protocols.listener import ListeningService, server_endpoint
from agtphost.protocols.server import AGTPServerFactory
from agtphost.protocols.tls import ServerTLS

__all__ = [
    "AGTPServerFactory",
    "ConnectionLimits",
    "ListeningService",
    "ServerTLS",
    "server_endpoint",
]
