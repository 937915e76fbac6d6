"""
Whose each resource is, where several servers are behind the host.

A client reads a resource by its URI alone, and the host asks which server is meant where several may have it. The
bridge knows: it showed the URI, in a list or as a link in a tool's answer, or a template that the URI follows. Where a
second server has it too, that one's is shown as ``agtp-mcp:SERVER:URI``, and its template alike.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

from agtphost.vocabulary.uri_templates import fits

_MOST = 10_000
"""URIs that are remembered; the one shown longest ago is forgotten first."""

_OWN = re.compile(r"agtp-mcp:([a-z0-9][a-z0-9_-]{0,31}):(.+)", re.ASCII | re.DOTALL)


def _address_for(known: OrderedDict[str, str], server: object, uri: str) -> str:
    if not isinstance(server, str):
        return uri
    owner = known.setdefault(uri, server)
    known.move_to_end(uri)
    if len(known) > _MOST:
        known.popitem(last=False)
    return uri if owner == server else f"agtp-mcp:{server}:{uri}"


class Addresses:
    """The URIs that clients were shown."""

    def __init__(self) -> None:
        self._servers: OrderedDict[str, str] = OrderedDict()
        self._templates: OrderedDict[str, str] = OrderedDict()

    def show_template(self, server: object, template: str) -> str:
        """Return the address of a server's resource template; resources that match it are read from that server."""
        return _address_for(self._templates, server, template)

    def show(self, server: object, uri: str) -> str:
        """Return the address of a server's resource, and remember it for :meth:`find`."""
        return _address_for(self._servers, server, uri)

    def find(self, address: str) -> dict[str, str]:
        """Return the payload that names the resource of an address: ``uri``, and ``server`` where it is known."""
        own = _OWN.fullmatch(address)
        if own is not None:
            return {"uri": own[2], "server": own[1]}
        server = self._servers.get(address)
        if server is None:
            shown = (owner for template, owner in self._templates.items() if fits(template, address))
            server = next(shown, None)
        return {"uri": address} if server is None else {"uri": address, "server": server}

    def find_template(self, address: str) -> dict[str, str]:
        """Return the payload that names a template, or a resource without one, since completion takes both."""
        server = self._templates.get(address)
        return self.find(address) if server is None else {"uri": address, "server": server}

    def meaning(self, addresses: Iterable[str], server: object, uri: str) -> list[str]:
        """Return those of the addresses that belong to a server's resource."""
        found = ((address, self.find(address)) for address in list(addresses))
        return [address for address, known in found if known["uri"] == uri and known.get("server", server) == server]

    def add_addresses(self, server: object, content: object) -> object:
        """Return the content of an answer with the addresses of what it links; the same object if it links nothing."""
        if not isinstance(content, list):
            return content
        shown = [self._add_address(server, item) for item in content]
        for mine, item in zip(shown, content, strict=True):
            if mine is not item:
                return shown
        return content

    def _add_address(self, server: object, item: Any) -> Any:
        if type(item) is not dict and not isinstance(item, Mapping):  # The abstract class asks in Python.
            return item
        if item.get("type") == "resource_link" and isinstance(item.get("uri"), str):
            return {**item, "uri": self.show(server, item["uri"])}
        inner = item.get("resource")
        if item.get("type") == "resource" and isinstance(inner, Mapping) and isinstance(inner.get("uri"), str):
            return {**item, "resource": {**inner, "uri": self.show(server, inner["uri"])}}
        return item
