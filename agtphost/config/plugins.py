"""Parts that other packages provide: ``[[gate]]``, ``[[adapter]]``, ``[[observer]]`` and ``[feature.NAME]``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field

from agtphost.config.http import HttpSection
from agtphost.config.values import Line, Section, Table, Text, form


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


def _without_slash(path: str) -> str:
    return path.rstrip("/") or "/"


class FeatureHttp(HttpSection):
    """
    The section ``[feature.NAME.http]``: where a feature answers over HTTP, if its package says that it does. Another
    listener needs a restart.
    """

    path: Annotated[
        str, Text, form(r"(?:/[A-Za-z0-9._~-]{1,64}){0,8}/?", "must be a path"), AfterValidator(_without_slash)
    ] = "/"
    """The path of the feature; it has everything below it, too."""


class FeatureSection(Section):
    """
    The section ``[feature.NAME]``: switches on a feature of another package, by the name of its entry point in the
    group ``agtphost.features``. The package says which other keys there are (``docs/extending/feature``).
    """

    model_config = ConfigDict(extra="allow")

    http: FeatureHttp | None = None

    @property
    def settings(self) -> Mapping[str, Any]:
        """Every key of the table that the package reads."""
        return self.model_extra or {}
