"""
AGTP framing without I/O: core v08 section 5.4.1.

- :mod:`~agtphost.wire.headers`: :class:`Headers`, the fields of one message
- :mod:`~agtphost.wire.events`: :class:`Request`, :class:`Response`, :class:`Signal`
- :mod:`~agtphost.wire.grammar`: the syntax of single lines
- :mod:`~agtphost.wire.readers`: octets to one message head, within limits
- :mod:`~agtphost.wire.heads`: the head of one message, and those that a connection has sent before
- :mod:`~agtphost.wire.codec`: :class:`Limits`, messages to octets
- :mod:`~agtphost.wire.connection`: :class:`Connection`, one side of one connection
- :mod:`~agtphost.wire.quic`: aioquic's connection with bounds, where QUIC is used
"""

from agtphost.wire.codec import Limits, request_line, serialize_request, serialize_response
from agtphost.wire.connection import Connection, Role
from agtphost.wire.events import Request, Response, Signal
from agtphost.wire.headers import Headers

__all__ = [
    "Connection",
    "Headers",
    "Limits",
    "Request",
    "Response",
    "Role",
    "Signal",
    "request_line",
    "serialize_request",
    "serialize_response",
]
