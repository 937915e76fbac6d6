"""
The bounds of function calls per request: what no neighbour on the machine moves, so that a gain stays gained.

Each is the number that was counted last, and one or two more for what time alone asks for, such as a new ``Date``. A
change that takes fewer calls lowers its bound. Functions of Python and built-in ones are counted.
"""

from __future__ import annotations

FUNCTION_CALL = 397
"""A registered function over AGTP, from the octets of the request to those of the answer, signed and stored."""

TOOL_CALL = 454
"""A tool call over stdio, eight at a time: gates, dispatcher and adapter, between the wire and the ledger."""

TOOL_CALL_ALONE = 478
"""The same where calls come one at a time."""

GATEWAY_TOOL_CALL = 763
"""The same eight through the gateway, from the octets of the HTTP request to those of its answer."""

FRONT_TOOL_CALL = {False: 974, True: 1_076}
"""The same eight through the MCP front, by whether they are in sessions of the handshake era."""

HTTP_CALL = {"a call": 297, "a tool": 407}
"""
Functions of Python alone, without built-in ones, of a registered function: through the gateway, and by ``tools/call``
through the MCP front. Both are signed and stored.
"""
