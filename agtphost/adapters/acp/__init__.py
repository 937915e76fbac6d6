"""
Servers of the Agent Communication Protocol (IBM/BeeAI) behind AGTP: adapters section 1.3.

It is not the Agent Client Protocol of editors, which goes by the same letters.

:mod:`.server` is one server; :mod:`.handlers` are the nine operations and
:mod:`.bindings` what the gates see of them; :mod:`.adapter` is what EXECUTE
asks.
"""

from agtphost.adapters.acp.adapter import ACPAdapter
from agtphost.adapters.acp.server import ACPServer

__all__ = ["ACPAdapter", "ACPServer"]
