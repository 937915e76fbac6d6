"""
Rules of the configuration that fit nothing which a server lists, so that what they were meant to protect is not.

Names of tools, pins and prompts are the server's own; a rule for resources is
a URI, or what URIs begin with and a ``*``. A rule for a URI that a template
may give fits, for what a template gives is not listed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping

from agtphost.config.upstreams import MCPServerSection
from agtphost.vocabulary.uri_templates import fits

LISTS: Mapping[str, tuple[str, ...]] = {"prompts": ("prompts",), "resources": ("resources", "templates")}
"""What has to be listed to know which rules of a kind fit: kinds of :data:`agtphost.adapters.mcp.resources.KINDS`."""

_ONE = {"tools": "tool", "prompts": "prompt", "resources": "resource"}
_EXPRESSION = re.compile(r"\{[^{}]*\}")

Listed = Mapping[str, Collection[str]]
"""Names and URIs by kind; a kind that was not listed yet is left out, and decides nothing."""


def needed(settings: MCPServerSection) -> tuple[str, ...]:
    """Kinds, besides tools, that a server has to list before its rules are known to fit."""
    wanted = (("prompts", settings.prompts), ("resources", settings.resources))
    return tuple(kind for name, rules in wanted if rules for kind in LISTS[name])


def unmatched(settings: MCPServerSection, listed: Listed) -> Iterator[tuple[str, str]]:
    """Kind (``tools``, ``prompts``, ``resources``) and name of every rule that fits nothing, in order."""
    for name in sorted({*settings.tools, *settings.pins} - set(listed.get("tools", ()))):
        yield "tools", name
    if "prompts" in listed:
        for name in sorted(settings.prompts.keys() - set(listed["prompts"])):
            yield "prompts", name
    if "resources" in listed and "templates" in listed:
        for rule in sorted(settings.resources):
            if not _covers(rule, listed["resources"], listed["templates"]):
                yield "resources", rule


def sentence(server: str, kind: str, name: str, listed: Listed) -> str:
    """What an operator is told of a rule that protects nothing."""
    close = difflib.get_close_matches(name[:256], sorted(listed.get(kind, ())), 1)
    meant = f" (did you mean {close[0]!r}?)" if close else ""
    one = _ONE[kind]
    what = repr(name) if kind == "tools" else f"{one} {name!r}"
    return f"the configuration has rules for {what} of {server}, and no {one} there has that name{meant}"


def shown(kind: str, name: str) -> str:
    """A rule in lists of them: ``prompt NAME``."""
    return f"{_ONE[kind]} {name}"


def _covers(rule: str, resources: Collection[str], templates: Collection[str]) -> bool:
    if rule.endswith("*"):
        start = rule[:-1]
        # What a template begins with before its first expression is what all its URIs begin with.
        heads = [_EXPRESSION.split(template)[0] for template in templates]
        return any(uri.startswith(start) for uri in resources) or any(
            head.startswith(start) or start.startswith(head) for head in heads
        )
    return rule in resources or rule in templates or any(fits(template, rule) for template in templates)
