"""What MCP clients see of a host's tools, prompts and resources: names and addresses that mean one thing each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agtphost.client.mcp.addresses import Addresses
from agtphost.client.mcp.held_calls import mark_approval, needs_approval
from agtphost.client.mcp.names import Names

_SERVER = "agtp/server"
"""Which server listed an entry; the host says so."""


class View:
    """
    The names and addresses that one client sees, or all clients of a bridge.

    :param server: the only server that is shown, by its own names; None: all.
    """

    def __init__(self, server: str | None = None) -> None:
        self.tools = Names(server)
        self.prompts = Names(server)
        self.addresses = Addresses()
        """What clients were shown of the resources of all servers."""

    def tool(self, tool: Mapping[str, Any]) -> dict[str, Any]:
        """Return an entry of ``tools/list``."""
        name = self.tools.show(str(tool.get("name")))
        if needs_approval(tool):
            tool = mark_approval(tool)
        # The host makes a task of the call where the tool demands it: clients call every tool alike.
        return {**{member: value for member, value in tool.items() if member != "execution"}, "name": name}

    def prompt(self, prompt: Mapping[str, Any]) -> dict[str, Any]:
        """Return an entry of ``prompts/list``."""
        return {**prompt, "name": self.prompts.show(str(prompt.get("name")))}

    def address_entries(self, page: dict[str, Any], member: str, key: str) -> dict[str, Any]:
        """Replace the addresses of a page's entries by ones that mean one server each."""
        show = self.addresses.show if key == "uri" else self.addresses.show_template
        page[member] = [
            {**entry, key: show((entry.get("_meta") or {}).get(_SERVER), str(entry.get(key)))}
            for entry in page.get(member, ())
        ]
        return page

    def read(self, address: str, payload: Mapping[str, str], result: dict[str, Any]) -> dict[str, Any]:
        """Return the result of ``resources/read``, under the address that was asked for."""
        if payload["uri"] != address and isinstance(result.get("contents"), list):
            result["contents"] = [
                {**each, "uri": address} if isinstance(each, dict) and each.get("uri") == payload["uri"] else each
                for each in result["contents"]
            ]
        return result

    def address_result(self, name: str, result: dict[str, Any]) -> dict[str, Any]:
        """
        Add addresses to the links of a result of ``tools/call``, and return it.

        :param name: the host's.
        """
        if "content" in result:
            result["content"] = self.addresses.add_addresses(name.partition(".")[0], result["content"])
        return result
