"""Parts of the host that the operator's own packages provide: ``[[gate]]``, ``[[adapter]]`` and ``[[observer]]``."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from agtphost.config.values import Line, Section, Table


class PluginSection(Section):
    """A section that names a plugin: see ``docs/extending``."""

    plugin: Line
    """The name of an entry point of the group ``agtphost.plugins``."""

    settings: Table[str, Any] = Field(default_factory=dict)
    """What its factory is called with; the plugin says what it knows."""


class GateSection(PluginSection):
    """An entry of ``[[gate]]``: a check before the handler, which can refuse a call and never admit one."""

    after: Line = "schema"
    """The gate of the host that it follows; an error lists the possible ones."""
