"""What a child process inherits: security section 2.4, T-MC-80."""

from __future__ import annotations

from collections.abc import Mapping

INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
"""The only variables of the host's own environment that a server gets."""


def child_environment(host: Mapping[str, str], configured: Mapping[str, str]) -> dict[str, str]:
    """
    Build a server's environment from empty.

    :param host: the host's own environment.
    :param configured: the ``env`` table of the server.
    """
    inherited = {name: host[name] for name in INHERITED if name in host}
    # A value that is a shell function definition has no business in a child.
    kept = {name: value for name, value in inherited.items() if not value.startswith("()")}
    return {**kept, **configured}
