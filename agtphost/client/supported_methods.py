"""
The methods that servers offer: the ``Supported-Methods`` of the first answer on a connection.

A client looks it up before it invokes a method (methods v01 section
1.4). It warns and does not refuse: the server has the last word, and may have
got the method since, or agreed on it by contract. No I/O: both clients share
this.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict

from agtphost.client.reply import Reply
from agtphost.client.requests import Destination, PreparedCall
from agtphost.client.terminal import escape
from agtphost.vocabulary.lru import keep

HEADER = "supported-methods"

CONTRACT = "contract-synthesized"
"""Calls under a contract are answered independent of what the server offers to others."""

MOST_SERVERS = 1024
"""Servers that are remembered; beyond that the one that greeted first is forgotten."""

MOST_METHODS = 2_000
"""Read of one greeting."""


class MethodWarning(UserWarning):
    """A method is called that the server did not name among those it supports."""


class SupportedMethods:
    """The methods that servers named, by destination."""

    def __init__(self) -> None:
        self._offered: OrderedDict[Destination, frozenset[str]] = OrderedDict()

    def note(self, call: PreparedCall, reply: Reply) -> None:
        """Remember what a server names; answers without a greeting change nothing."""
        named = reply.headers.get(HEADER)
        if named is None:
            return
        methods = frozenset(name.strip() for name in named.split(",")[:MOST_METHODS] if name.strip())
        self._offered.pop(call.destination, None)
        if methods:
            keep(self._offered, call.destination, methods, MOST_SERVERS)

    def lacks(self, call: PreparedCall) -> bool:
        """Return whether the server is known to support other methods only."""
        offered = self._offered.get(call.destination)
        if offered is None or call.request.method in offered:
            return False
        return CONTRACT not in call.request.headers

    def warn(self, call: PreparedCall) -> None:
        """Warn of a call that :meth:`lacks` names, once for each place in the code that makes it."""
        if self.lacks(call):
            warnings.warn(
                f"{call.destination} does not name {escape(call.request.method)} among the methods that it supports",
                MethodWarning,
                stacklevel=4,
            )
