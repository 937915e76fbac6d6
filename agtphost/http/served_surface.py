"""The answering side of one HTTP surface; where it is served, the configuration says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agtphost.http.cross_origin import CrossOriginRules


@dataclass(frozen=True, kw_only=True)
class ServedSurface:
    """The resource that answers for one surface."""

    name: str
    """The name of its :class:`agtphost.config.surfaces.Surface`."""

    what: str
    """The name for people, such as ``the A2A front``."""

    resource: Any
    """A leaf and a :class:`agtphost.http.bounded_request.Gatekeeper`; it gets every path of the surface."""

    pages: bool = False
    home: bool = False
    fields: tuple[tuple[str, str], ...] = ()
    """These three are explained in :class:`agtphost.http.mounts.Mount`."""

    cross_origin: Callable[[], CrossOriginRules] | None = None
    """Returns what pages of the section's ``origins`` may send and read; None: they may read nothing."""

    end_streams: Callable[[], None] | None = None
    """Ends the streams that only wait for news, when the listener stops; None: the surface has none."""
