"""
The texts of grants, by which an operator says what an agent may call.

A grant names things by a text of one of these forms; a ``*`` at its end matches any rest:

- ``server.tool``, ``server.*``: a tool of an MCP server, an action of an A2A agent or an ACP server; what else an MCP
  server has is ``server.resource:URI`` and ``server.prompt:NAME``; what follows the server may be in any script
- ``METHOD /path``, ``* /path``: an endpoint, by its path template, or a negotiated contract
- ``METHOD``: what the host itself answers by that method
- ``EXECUTE action``: an action of neither a server nor an endpoint, such as ``EXECUTE mcp.tools.approve``
- ``*``: everything
"""

from __future__ import annotations

import re
import unicodedata

ANY = "*"
LONGEST = 512
"""Characters of a grant."""

_FORM = re.compile(
    r"\*|(?P<method>[A-Z]{3,32})|(?P<verb>[A-Z]{3,32}|\*) (?P<path>/(?:[\x21-\x7a\x7c\x7e]|\{[^{}\x00-\x20]*\})*)"
    r"|EXECUTE (?P<action>[a-z][\x21-\x7e]*)|(?P<upstream>[\x21-\x29\x2b-\x2d\x2f-\x7e]+)\.(?P<part>[^\x00-\x1f\x7f]+)",
    re.ASCII,
)


def is_grant(text: str) -> bool:
    """
    Return whether a text has one of the forms of a grant; only its last character may be ``*``.

    As in the names of tools, no character is invisible or looks like another (form NFKC).
    """
    if not 0 < len(text) <= LONGEST or not text.isprintable() or unicodedata.normalize("NFKC", text) != text:
        return False
    return _FORM.fullmatch(text) is not None and ANY not in _body(text)


def _body(text: str) -> str:
    """Return a grant's text without a ``*`` at its end, and without the ``*`` for any method."""
    return text.removesuffix(ANY).removeprefix("* ")


def method_of(text: str) -> str | None:
    """Return the method of a grant that names a method alone; None for the others."""
    found = _FORM.fullmatch(text)
    return None if found is None else found["method"]


def upstream_of(text: str) -> tuple[str, str] | None:
    """Upstream and part of a grant that names what an upstream has; None for the others."""
    found = _FORM.fullmatch(text)
    return None if found is None or found["upstream"] is None else (found["upstream"], found["part"])
