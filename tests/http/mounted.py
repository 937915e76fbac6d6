"""A listener with one surface."""

from __future__ import annotations

from typing import Any

from agtphost.http.http_service import HTTP_LIMITS, HttpService
from agtphost.http.mounts import Mount
from agtphost.vocabulary.mount_paths import MountPath


def mounted(resource: Any, path: str = "/", **more: Any) -> Mount:
    """A resource that has every path."""
    return Mount(surface="test", path=MountPath(path), resource=resource, **more)


def service_of(resource: Any, listen: str, tls: Any = None, limits: Any = HTTP_LIMITS, **more: Any) -> HttpService:
    """A listener of this machine for it alone."""
    from twisted.internet import reactor

    return HttpService(reactor, listen, tls, [mounted(resource, **more)], ["the test"], limits)
