"""
What both sides of AGTP over QUIC need of aioquic, without I/O; loaded only where QUIC is used.

- :mod:`.connection`: aioquic's connection with bounds, and whether the installed version has what it needs
- :mod:`.handshake_messages`: the bounds of a handshake's certificates and signatures
- :mod:`.received_ranges`: which octets of a stream have come
- :mod:`.transport_parameters`: what the library does not check of a peer's parameters
"""
