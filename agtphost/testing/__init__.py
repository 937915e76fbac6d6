"""
Test utilities: a whole host in memory.

- :class:`.host.MemoryHost`: real wire bytes, gates, methods, dispatcher and ledger; no sockets, no threads, and no
  files except those that are named
- :class:`.identities.Identities` and :class:`.identities.TestAgent`: agents with real documents, keys and certificates
- :class:`.connection.MemoryConnection` and :class:`.connection.Answer`: a connection to it, and an answer
- :mod:`.declarations`: endpoints as functions, tables or files
- :mod:`.loaded_parts`: configuration and endpoints without files
- :mod:`.reactor` and :mod:`.ledger`: time that the test advances, and records that are written synchronously
- :mod:`.plugin`: the pytest fixture ``agtp_host``
- :mod:`.stores`: the requirements of every store, as tests for your own store; :mod:`.store_searches`: the part about
  searches; :mod:`.store_drafts`: records for both

::

    def test_an_order_is_found(agtp_host):
        host = agtp_host()
        host.endpoint("QUERY", "/orders", lambda context: {"orders": [context.input["of"]]}, {"of": "string"})
        answer = host.call("QUERY", "/orders", {"of": "Ann"}, caller=host.agent("demo"))
        assert answer.status == 200
        assert answer.result == {"orders": ["Ann"]}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agtphost.testing.connection import Answer, MemoryConnection
    from agtphost.testing.host import MemoryHost, Unanswered
    from agtphost.testing.identities import TestAgent

__all__ = ["Answer", "MemoryConnection", "MemoryHost", "TestAgent", "Unanswered"]

_WHERE = {
    "Answer": "connection",
    "MemoryConnection": "connection",
    "MemoryHost": "host",
    "TestAgent": "identities",
    "Unanswered": "host",
}


def __getattr__(name: str) -> Any:
    # pytest imports this package in every run wherever agtphost is installed, so unused modules must cost no time.
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
