"""How a hosted tool is called: the parameters of the EXECUTE that carries its arguments, and their schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedCall:
    """
    The EXECUTE that calls a tool: what every list of tools shows, and what every caller inside the host sends.

    Two of the same values are equal, so that what is published is compared by them.
    """

    action: str
    """``parameters.action``, such as ``mcp.tools.call``."""

    payload_type: str
    constants: Mapping[str, Any] = field(default_factory=dict)
    """Members of the payload that are the same in each call, such as the tool's name."""

    member: str = ""
    """The member of the payload that has the arguments; empty: they are members of the payload themselves."""

    def parameters(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of the EXECUTE: ``action``, ``payload_type`` and ``payload``."""
        given = {self.member: dict(arguments)} if self.member else arguments
        return {
            "action": self.action,
            "payload_type": self.payload_type,
            "payload": {**self.constants, **given},
        }

    def arguments_schema(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """
        Return the schema of what holds the arguments: the member of the payload, or the whole payload.

        :param schema: JSON Schema of the arguments.
        """
        if self.member or not self.constants:
            return schema
        required = dict.fromkeys((*schema.get("required", ()), *self.constants))
        properties = {**schema.get("properties", {}), **constant_schemas(self.constants)}
        return {**schema, "type": "object", "properties": properties, "required": [*required]}

    def parameters_schema(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """
        Return the schema of :meth:`parameters`.

        :param arguments: a schema that :meth:`arguments_schema` returned, or a reference to it.
        """
        payload: Mapping[str, Any] = arguments
        if self.member:
            payload = _closed({**constant_schemas(self.constants), self.member: dict(arguments)})
        named = constant_schemas({"action": self.action, "payload_type": self.payload_type})
        return _closed({**named, "payload": dict(payload)})


def constant_schemas(constants: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of each constant by its name."""
    return {
        name: {"type": "string", "const": value} if isinstance(value, str) else {"const": value}
        for name, value in constants.items()
    }


def _closed(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": dict(properties),
    }
