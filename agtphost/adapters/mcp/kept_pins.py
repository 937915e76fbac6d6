"""
Approved tool definitions as state items: durable in the same store, by the same commits, as what is on record.

Design decision 16: a definition is pinned by its digest when it is first listed. The pin is on disk before the tool
can be called, and an approval is committed together with the event that tells of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from agtphost.adapters.definitions import Definitions
from agtphost.adapters.mcp.tool_record import Submit
from agtphost.adapters.mcp.tools import Tool, ToolPins, defining
from agtphost.audit.drafts import Change, LedgerUnavailable, StaleChange
from agtphost.audit.state import StateItem, StateTable
from agtphost.upstream.failures import UpstreamFailure

KIND = "mcp-tool-pin"
"""Of state items; the key is the server and the tool, on a line each."""

MOST_AT_ONCE = 200
"""Pins in one commit."""

log = Logger(namespace="agtphost.mcp")


def pin(server: str, tool: str, digest: str, *, expected: int | None = None) -> Change:
    """What makes a digest the approved one."""
    return Change(kind=KIND, key=f"{server}\n{tool}", value={"sha256": digest}, expected=expected)


class KeptPins:
    """
    The pins of all servers.

    :param held: where they are.
    :param submit: commits more of them.
    """

    def __init__(self, held: StateTable, submit: Submit) -> None:
        self._submit = submit
        self._pins: dict[str, ToolPins] = {}
        self._held = held

    def of(self, server: str, configured: Mapping[str, str], differs: Callable[[str, str, str], None]) -> ToolPins:
        """
        The pins of one server, which follow the store from now on.

        :param configured: those of its settings, which win.
        :param differs: as :class:`ToolPins` has it.
        """
        if not self._pins:
            self._held.watch(KIND, self._watched)
        pins = self._pins[server] = ToolPins(
            configured, differs=differs, keep=partial(self._keep, server), learn=partial(self._learn, server)
        )
        for item in self._held.all(KIND):
            self._watched(item.key, item)
        return pins

    def _watched(self, key: str, item: StateItem | None) -> None:
        server, _, tool = key.partition("\n")
        pins = self._pins.get(server)
        if pins is not None and item is not None:
            pins.approve(tool, str(item.value["sha256"]))

    def definitions(self, server: str) -> Definitions:
        """The texts of the approved definitions of one server."""
        return Definitions("mcp", server, self._held)

    def _learn(self, server: str, tools: Mapping[str, Tool]) -> None:
        digests = {name: tool.digest for name, tool in tools.items()}
        changes = list(self.definitions(server).missing(digests, lambda name: defining(tools[name].definition)))
        if changes:
            # Without them a difference cannot be shown, and everything else is as it was.
            keeping = Deferred.fromCoroutine(self._submitted(changes))
            keeping.addErrback(lambda failure: log.warn("definitions of {server} are not kept", server=server))

    async def _submitted(self, changes: Sequence[Change]) -> None:
        for at in range(0, len(changes), MOST_AT_ONCE):
            await self._submit(changes[at : at + MOST_AT_ONCE], ())

    async def _keep(self, server: str, first: Mapping[str, str]) -> None:
        """
        Make first definitions durable.

        :raises UpstreamFailure: the store is down: nothing is approved that would be forgotten.
        """
        pins = self._pins[server]
        for tool_by_tool in (False, True):
            left = [(tool, digest) for tool, digest in first.items() if not pins.approved(tool)]
            size = 1 if tool_by_tool else MOST_AT_ONCE
            for at in range(0, len(left), size):
                try:
                    await self._submit([pin(server, *entry, expected=0) for entry in left[at : at + size]], ())
                except StaleChange:
                    # Another process of the same server was first with one of them: that one is the measure.
                    continue
                except LedgerUnavailable as error:
                    raise UpstreamFailure(f"its tools cannot be pinned durably: {error}") from None
