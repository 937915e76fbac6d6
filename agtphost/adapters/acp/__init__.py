"""
Host servers of the Agent Communication Protocol (IBM/BeeAI) behind AGTP: adapters section 1.3.

It is not the Agent Client Protocol of editors, which has the same initials.

:mod:`.server` is one server; :mod:`.handlers` has the nine operations and :mod:`.bindings` their bindings;
    :mod:`.adapter` resolves what EXECUTE names.
"""

from agtphost.adapters.acp.adapter import ACPAdapter
from agtphost.adapters.acp.server import ACPServer

__all__ = ["ACPAdapter", "ACPServer"]
