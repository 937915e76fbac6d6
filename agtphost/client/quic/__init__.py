"""
Calls over QUIC; aioquic is loaded only where they are asked for.

- :mod:`.core`: aioquic as a client needs it, and the certificates it uses
- :mod:`.session`: one connection, without I/O; :mod:`.calls`: a call on one of its streams;
  :mod:`.reset_budget`: how many of them may be cancelled
- :mod:`.errors`: why a call has no answer, from QUIC's codes
- :mod:`.driver`: a session on an event loop
- :mod:`.blocking`, :mod:`.twisted`, :mod:`.aio`: the connections of the blocking, the Twisted and the asyncio client
- :mod:`.handshake_race`: the addresses of a name, for the blocking client
- :mod:`.loading`: whether QUIC can be used, and the certificates for it
"""
