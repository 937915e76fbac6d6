"""The EXECUTE that carries the arguments of a hosted tool, and the path it is sent to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agtphost.vocabulary import jsontext

_HOLE = b"\0"
"""The place of the arguments in a body: no JSON text has this octet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedCall:
    """
    The EXECUTE that calls a tool, for lists of tools and for every caller inside the host.

    Two calls with the same values are equal, because published lists are compared.
    """

    action: str
    """``parameters.action``, such as ``mcp.tools.call``."""

    payload_type: str
    constants: Mapping[str, Any] = field(default_factory=dict)
    """Members of the payload that are the same in each call, such as the tool's name."""

    member: str = ""
    """The member of the payload that has the arguments; empty: they are the payload's own members."""

    upstream_member: str = ""
    """The member of the payload that names the upstream if the path does not; empty: none."""

    _around: tuple[bytes, bytes] | None = field(default=None, init=False, repr=False, compare=False)
    """The octets of a body before and after the arguments, once they were needed: see :meth:`body`."""

    def parameters(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of the EXECUTE: ``action``, ``payload_type`` and ``payload``."""
        given = {self.member: dict(arguments)} if self.member else arguments
        return {
            "action": self.action,
            "payload_type": self.payload_type,
            "payload": {**given, **self.constants},
        }

    def to_json(self) -> dict[str, Any]:
        """
        Return what lists say of how a tool is called: ``action``, ``payload_type`` and the members of its payload.

        ``payload`` has the members that are the same in each call, and ``arguments_member`` names the one that takes
        the arguments; without it, the arguments are members of the payload themselves.
        """
        found: dict[str, Any] = {"action": self.action, "payload_type": self.payload_type}
        if self.constants:
            found["payload"] = dict(self.constants)
        if self.member:
            found["arguments_member"] = self.member
        return found

    def body(self, arguments: bytes) -> bytes:
        """
        Return the body of the EXECUTE as JSON, with the arguments unchanged.

        :param arguments: a JSON object; this is not checked.
        """
        if self.member:
            around = self._around
            if around is None:
                before, after = self._enclose(_with_member(self.constants, self.member, _HOLE)).split(_HOLE)
                around = before, after
                object.__setattr__(self, "_around", around)
            return around[0] + arguments + around[1]
        if self.constants and arguments.strip()[1:-1].strip():
            payload = jsontext.encode(self.constants)[:-1] + b"," + arguments.strip()[1:]
        else:
            payload = jsontext.encode(self.constants) if self.constants else arguments
        return self._enclose(payload)

    def _enclose(self, payload: bytes) -> bytes:
        named = {"action": self.action, "payload_type": self.payload_type}
        return b'{"parameters":' + _with_member(named, "payload", payload) + b"}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAddress:
    """The address of a tool over AGTP: the path of the EXECUTE, and what it carries."""

    path: str
    call: CarriedCall


def upstream_of(name: str, path: str) -> tuple[str, str]:
    """
    Return the names of a tool's upstream and of the tool there: ``files`` and ``read_file`` of ``files.read_file``.

    :param name: the tool's name in lists.
    :param path: path of its EXECUTE; its last segment is the upstream if the name has no dot.
    """
    upstream, dot, tool = name.partition(".")
    return (upstream, tool) if dot and upstream and tool else (path.rpartition("/")[2], name)


def _with_member(members: Mapping[str, Any], name: str, value: bytes) -> bytes:
    """Return a JSON object with one more member, whose value is already encoded."""
    head = jsontext.encode(members)[:-1] + b"," if members else b"{"
    return b"".join((head, jsontext.encode(name), b":", value, b"}"))
