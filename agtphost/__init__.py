"""
agtphost hosts MCP servers, agents and Python functions behind the Agent Transfer Protocol (AGTP).

Handler authors need only what this module exports; see :mod:`agtphost.handlers.context`.
"""

from agtphost.handlers.context import EndpointContext, EndpointError, EndpointResponse

__version__ = "0.1.0"

__all__ = ["EndpointContext", "EndpointError", "EndpointResponse", "__version__"]
