"""What part of a listener's paths a surface has: one path, with or without what is below it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MountPath:
    """
    A part of an HTTP listener's paths. Paths are compared as they are sent: nothing is decoded, no dots are resolved.

    ``MountPath("/registry")`` is ``/registry`` and everything that begins with ``/registry/``; ``MountPath("/")`` is
    everything.
    """

    path: str
    """Begins with ``/``, and ends with one only where it is nothing else."""

    below: bool = True
    """Whether what is below it belongs to it."""

    rest: bool = False
    """Whether it is what no other surface of the listener has: then it comes last, and overlaps the whole alone."""

    def __post_init__(self) -> None:
        wrong = not self.path.startswith("/") or (self.path != "/" and self.path.endswith("/"))
        if wrong or not self.path.isascii() or not self.path.isprintable() or any(sign in self.path for sign in " ?#%"):
            raise ValueError(f"no path for a surface: {self.path!r}")

    def covers(self, path: str) -> bool:
        """Return whether a path is this one, or below it where those count too."""
        return path == self.path or (self.below and path.startswith(self.path.rstrip("/") + "/"))

    def overlaps(self, other: MountPath) -> bool:
        """Return whether there is a path that both cover."""
        if self.rest or other.rest:
            return self.path == other.path
        return self.covers(other.path) or other.covers(self.path)

    def __str__(self) -> str:
        return self.path
