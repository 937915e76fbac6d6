"""What the operator says about one upstream that is reached over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from agtphost.identity.peer import Assurance


@dataclass(frozen=True, kw_only=True)
class PeerSettings:
    """One upstream; :mod:`agtphost.config.peers` has checked it."""

    name: str
    url: str
    """ASCII, https or loopback; without a slash at its end."""

    scopes: tuple[str, ...]
    """Needed by every action."""

    min_assurance: Assurance = Assurance.CERTIFICATE
    timeout: float = 60.0
    """Seconds of one call, waiting for its turn included."""

    start_timeout: float = 30.0
    """Seconds until the upstream must have said what it is."""

    refresh: float = 300.0
    """Seconds after which it is asked again what it is."""

    max_concurrency: int = 16
    max_queue: int = 64
    start: Literal["eager", "lazy"] = "eager"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with every request; from the configuration alone."""

    ca: str | None = None
    """PEM file of the only authorities trusted; None means the platform's."""

    forward_identity: bool = False
    """Tell the upstream the caller's Agent-ID, in its metadata."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or not self.url.isascii():
            raise ValueError(f"{self.url!r} is not an http or https URL")
        if min(self.timeout, self.start_timeout, self.refresh, self.max_concurrency, self.max_queue + 1) <= 0:
            raise ValueError(f"timeouts and limits of {self.name!r} must be positive")

    @property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host and port."""
        return origin_of(self.url)


def origin_of(url: str) -> tuple[str, str, int]:
    """
    Scheme, lower-case host and port of a URL.

    :raises ValueError: for what is no http or https URL, or names a user.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise ValueError("no http or https URL")
    return parts.scheme, parts.hostname.lower(), parts.port or (443 if parts.scheme == "https" else 80)
