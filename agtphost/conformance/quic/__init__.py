"""
The examination of a host over QUIC; aioquic is loaded only where it is asked for.

- :mod:`.link`: a connection to the target, and the requests on its streams
"""
