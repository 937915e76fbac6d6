"""Lists to choose from where access is checked: tools, endpoints and methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agtphost.page.person_client import PageReply

TOOL = "tool "
"""The beginning of a choice that is a tool; an endpoint is ``METHOD /path``."""

LONGEST = 600
"""Characters of a choice."""

OWN = "B"
"""The tier of the operator's endpoints; built-in ones are listed after these."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A tool or an endpoint that was chosen."""

    method: str = ""
    path: str = ""
    tool: str = ""
    """``SERVER.NAME``; empty for an endpoint."""

    question: Mapping[str, Any] = field(default_factory=dict)
    """Further parameters of the question."""

    @property
    def template(self) -> str:
        """Return the first parameter of the path, in its braces; empty without one."""
        begin = self.path.find("{")
        end = self.path.find("}", begin)
        return self.path[begin : end + 1] if 0 <= begin < end else ""


def read_choice(text: str) -> Choice:
    """Return the tool or the method and path that a value of the list names; an empty choice for any other text."""
    if text.startswith(TOOL) and len(text) > len(TOOL):
        tool = text[len(TOOL) :]
        return Choice(method="EXECUTE", path="/", tool=tool, question={"tool": tool})
    method, _, path = text.partition(" ")
    if method.isascii() and method.isupper() and path.startswith("/"):
        return Choice(method=method, path=path)
    return Choice()


@dataclass(frozen=True, kw_only=True)
class Choices:
    """The lists of a form: tools, endpoints, methods and paths."""

    options: Sequence[tuple[str, str]]
    """Values and labels of tools and endpoints."""

    methods: Sequence[str]
    paths: Sequence[str]

    @classmethod
    def from_replies(cls, tools: PageReply, endpoints: PageReply) -> Choices:
        """Return the lists of what the host has; empty where it does not say."""
        named = sorted({f"{each.get('upstream')}.{each.get('name')}" for each in tools.entries("tools")})
        found = endpoints.entries("endpoints")
        ordered = [each for each in found if each.get("tier") == OWN] + [
            each for each in found if each.get("tier") != OWN
        ]
        places = [f"{each.get('method')} {each.get('path')}" for each in ordered]
        return cls(
            options=[
                ("", "by method and path"),
                *((TOOL + name, f"Tool {name}") for name in named),
                *((place, place) for place in places),
            ],
            methods=sorted({str(each.get("method")) for each in found}),
            paths=list(dict.fromkeys(str(each.get("path")) for each in ordered)),
        )

    def find_option(self, text: str) -> str:
        """Return a value of the list, or nothing for any other text."""
        return text if any(text == value for value, _ in self.options) else ""

    def lacks_tool(self, tool: str) -> bool:
        """Return whether the server of a tool lists others, and not that one; a server that is down lists none."""
        server, dot, _ = tool.partition(".")
        return bool(
            dot
            and not self.find_option(TOOL + tool)
            and any(value.startswith(f"{TOOL}{server}.") for value, _ in self.options)
        )
