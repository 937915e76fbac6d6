"""
Approved tool definitions as held items: durable in the same store, by the same commits, as what is on record.

Design decision 16: a definition is pinned by its digest when it is first listed. The pin is on disk before the tool
can be called, and an approval is committed together with the event that tells of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from agtphost.adapters.mcp.failures import McpFailure
from agtphost.adapters.mcp.tool_record import Submit
from agtphost.adapters.mcp.tools import Definitions, ToolPins, defining
from agtphost.adapters.web.definitions import kept_definition
from agtphost.audit.drafts import Change, LedgerUnavailable, StaleChange
from agtphost.audit.held import Held, HeldTable

KIND = "mcp-tool-pin"
"""Of held items; the key is the server and the tool, on a line each."""

MOST_AT_ONCE = 200
"""Pins in one commit."""

MOST_SHOWN = 1_000
"""Approved tools of one server whose definitions are kept beside their digests."""


def pin(
    server: str,
    tool: str,
    digest: str,
    definition: Mapping[str, Any] | None = None,
    *,
    expected: int | None = None,
) -> Change:
    """
    What makes a digest the approved one.

    :param definition: what it is of, kept to be shown beside a later one; a long one is not.
    """
    value: dict[str, Any] = {"sha256": digest}
    if definition is not None:
        value.update(kept_definition(defining(definition)))
    return Change(kind=KIND, key=f"{server}\n{tool}", value=value, expected=expected)


class KeptPins:
    """
    The pins of all servers.

    :param held: where they are.
    :param submit: commits more of them.
    """

    def __init__(self, held: HeldTable, submit: Submit) -> None:
        self._submit = submit
        self._pins: dict[str, ToolPins] = {}
        self._held = held

    def of(
        self, server: str, configured: Mapping[str, str], differs: Callable[[str, str, str], None]
    ) -> ToolPins:
        """
        The pins of one server, which follow the store from now on.

        :param configured: those of its settings, which win.
        :param differs: as :class:`ToolPins` has it.
        """
        if not self._pins:
            self._held.watch(KIND, self._watched)
        pins = self._pins[server] = ToolPins(configured, differs=differs, keep=partial(self._keep, server))
        for item in self._held.all(KIND):
            self._watched(item.key, item)
        return pins

    def definition(self, server: str, tool: str) -> Mapping[str, Any] | None:
        """The definition that was approved; None where it is not kept."""
        item = self._held.get(KIND, f"{server}\n{tool}")
        return None if item is None else item.value.get("definition")

    def _watched(self, key: str, item: Held | None) -> None:
        server, _, tool = key.partition("\n")
        pins = self._pins.get(server)
        if pins is not None and item is not None:
            pins.approve(tool, str(item.value["sha256"]))

    async def _keep(self, server: str, first: Mapping[str, str], definitions: Definitions) -> None:
        """
        Make first definitions durable.

        :raises McpFailure: the store is down: nothing is approved that would be forgotten.
        """
        pins = self._pins[server]
        for tool_by_tool in (False, True):
            left = [(tool, digest) for tool, digest in first.items() if not pins.approved(tool)]
            size = 1 if tool_by_tool else MOST_AT_ONCE
            for at in range(0, len(left), size):
                try:
                    batch = left[at : at + size]
                    # Of a server with more tools than anybody looks at, the first ones' definitions are kept.
                    shown = definitions if pins.count < MOST_SHOWN else {}
                    changes = [pin(server, *each, shown.get(each[0]), expected=0) for each in batch]
                    await self._submit(changes, ())
                except StaleChange:
                    # Another process of the same server was first with one of them: that one is the measure.
                    continue
                except LedgerUnavailable as error:
                    raise McpFailure(f"its tools cannot be pinned durably: {error}") from None
