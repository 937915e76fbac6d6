"""
AGTP over QUIC, the server's side: optional, off by default, with the gates, records and limits of TLS.

A stream acts as a connection that carries one request. Only QUIC version 1; no 0-RTT, no resumption, no server push, no
datagram frames. The library is aioquic, of which only the core without I/O is used (``[quic]``, extra ``quic``).

- :mod:`.core`: aioquic as a listener needs it: certificate requests, certificates by name, reset tokens
- :mod:`.stream`: one stream, as the transport of a :class:`~agtphost.protocols.connection.ServerConnection`
- :mod:`.link`: one QUIC connection, from its handshake to its end
- :mod:`.link_settings`: what a connection has of its port
- :mod:`.datagrams`: the UDP port: which datagram belongs to which connection, and what those get that belong to none
- :mod:`.counts`: what it counts, for metrics
- :mod:`.answer_budget`: how many of those are answered
- :mod:`.retry_tokens`: proofs of addresses
- :mod:`.version_negotiation`: the answer to other versions
- :mod:`.turns`: what a port does in a turn of the reactor
- :mod:`.receive_queue`: datagrams that wait until it is their connection's turn
- :mod:`.progress`: which connections send much that has no use
- :mod:`.qlog`: traces of connections, for debugging
- :mod:`.listener`: the service
"""
