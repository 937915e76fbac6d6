"""
Names of tools and prompts, at the host and as MCP clients see them.

The host writes ``server.tool``. Many clients allow ``[A-Za-z0-9_-]{1,64}``
alone, so a client sees ``server__tool``; what does not fit is cut and ends in
a digest of the whole. A bridge of one server leaves the server's own names.
"""

from __future__ import annotations

import hashlib
import re

LONGEST = 64
"""Characters of a name that every client takes."""

_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]", re.ASCII)
_DIGEST = 10
_MOST = 20_000
"""Names that are remembered, two of each thing: more than a host can have in use."""


def shown_name(name: str) -> str:
    """
    Return the name that a client sees.

    The same name always gets the same answer, in this process and the next,
    and two names that differ never share one.

    :param name: ``server.tool``.
    """
    server, dot, rest = name.partition(".")
    joined = f"{server}__{rest}" if dot else name
    # The name of a server or tool that contains "__" could collide with another pair, so those get a digest.
    if _PLAIN.fullmatch(joined) and "__" not in server and not (dot and rest.startswith("_")):
        return joined
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
    return f"{_FOREIGN.sub('_', joined)[: LONGEST - _DIGEST - 1]}-{digest}"


class Names:
    """
    The names of one kind of thing, in both directions.

    :param server: the only server that is shown, by its own names; None: all of them.
    """

    def __init__(self, server: str | None = None) -> None:
        self._server = server
        self._hosts: dict[str, str] = {}

    def show(self, name: str) -> str:
        """Return the name for clients of what the host calls ``name``; remembered for :meth:`find_host_name`."""
        if self._server is not None:
            return name.removeprefix(f"{self._server}.")
        shown = shown_name(name)
        if len(self._hosts) < _MOST:
            self._hosts[shown] = name
            if "." in name:
                # Clients may say the host's own name too. None that they see has a dot, so it is no other thing's.
                self._hosts[name] = name
        return shown

    def shows(self, name: str) -> bool:
        """Return whether something that the host calls ``name`` is shown at all."""
        return self._server is None or name.startswith(f"{self._server}.")

    def find_host_name(self, shown: str) -> str | None:
        """
        Return the host's name, if it is certain; None means that a listing has to be read first.

        :param shown: as a client sees it, or as the host calls it.
        """
        if self._server is not None:
            return f"{self._server}.{shown}"
        return self._hosts.get(shown)

    def guess(self, shown: str) -> str:
        """Return the host's name of something that is in no listing, so that the host can say why."""
        return shown.replace("__", ".", 1)
