"""Parts that other packages provide: ``[[gate]]``, ``[[adapter]]``, ``[[observer]]`` and ``[feature.NAME]``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict, Field

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


class FeatureSection(Section):
    """
    The section ``[feature.NAME]``: switches on a feature of another package, by the name of its entry point in the
    group ``agtphost.features``. The package says which keys there are (``docs/extending/feature``).
    """

    model_config = ConfigDict(extra="allow")

    @property
    def settings(self) -> Mapping[str, Any]:
        """Every key of the table."""
        return self.model_extra or {}
