"""Endpoints that are close to one that a host does not have, of all that the caller may call there."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from agtphost.cli.completion_sources import endpoints_in
from agtphost.cli.exchange import entries_of, inspect
from agtphost.vocabulary.reasons import Reason

if TYPE_CHECKING:
    from agtphost.cli.target import Target
    from agtphost.client.sync import Client

MOST = 3
"""Names that are suggested."""

MOST_TOOLS = 200
"""Tools that are looked through; the host lists as many in one answer."""

CLOSENESS = 0.6
"""Share of characters that two paths must have in common, as difflib counts."""

NO_ENDPOINT = (Reason.NOT_FOUND, Reason.METHOD_NOT_ALLOWED, Reason.METHOD_VIOLATION)
"""Refusal reasons that mean that nothing has that method and path."""

_PARAMETER = re.compile(r"\{[^{}/]*\}")


def close_endpoints(
    client: Client, target: Target, reason: str, method: str, path: str, config: Path | None = None
) -> list[str]:
    """
    Return endpoints close to the one that a host does not have, the closest first.

    :param reason: of the refusal; empty where the call was not refused.
    :param config: the ``host.toml`` of the host, whose files are read; None: the host is asked, which lists what the
        caller may see.
    """
    if reason not in NO_ENDPOINT:
        return []
    if config is not None:
        # A second request would be one more record of a call that the user did not type.
        known = endpoints_in(config)
    else:
        answer = client.call(target.uri, "DISCOVER", "/methods")
        listed = answer.result if answer.ok and isinstance(answer.result, list) else []
        known = [(str(each.get("method")), str(each.get("path"))) for each in listed if isinstance(each, dict)]
    scores = {f"{verb} {at}": _closeness(verb, at, method, path) for verb, at in known}
    return [name for name, score in sorted(scores.items(), key=lambda each: -each[1]) if score >= CLOSENESS][:MOST]


def unlisted_tool(client: Client, target: Target, tool: str) -> list[str] | None:
    """
    Return tools close to one that its server does not list; None for one that is listed, or whose server lists none.

    :param tool: ``SERVER.NAME``.
    """
    asked = {"target": "tools", "upstream": f"mcp.{tool.partition('.')[0]}", "limit": MOST_TOOLS}
    listed = entries_of(inspect(client, target, asked).get("tools"), "tools")
    names = [f"{each.get('upstream')}.{each.get('name')}" for each in listed]
    if not names or len(names) >= MOST_TOOLS or tool in names:
        return None
    return difflib.get_close_matches(tool, names, MOST)


def _closeness(method: str, template: str, wanted_method: str, wanted_path: str) -> float:
    """Return how close an endpoint is, from 0: the path decides, and the same method counts for a tenth."""
    path = 1.0 if _matches(template, wanted_path) else _ratio(*_without_values(template, wanted_path))
    return path + 0.1 * (method == wanted_method) if path >= CLOSENESS else 0.0


def _without_values(template: str, path: str) -> tuple[str, str]:
    """Return a template and a path with ``*`` for parameters and their values, which tell nothing about closeness."""
    segments, typed = template.split("/"), path.split("/")
    if len(segments) == len(typed):
        # Some value of a parameter is longer than all the rest of the path.
        typed = ["*" if _PARAMETER.search(one) else other for one, other in zip(segments, typed, strict=True)]
    return _PARAMETER.sub("*", template), "/".join(typed)


def _ratio(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()


def _matches(template: str, path: str) -> bool:
    """Return whether a path is one of a template."""
    pattern = "[^/]+".join(map(re.escape, _PARAMETER.split(template)))
    return re.fullmatch(pattern, path) is not None
