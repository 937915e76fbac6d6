"""
Versions of the method catalog: semver, and which one two parties use (AGTP-API sections 4.1 and 4.6).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TypeGuard

HEADER = "AGTP-Catalog-Version"
"""
Request header of our own: the catalog version that the request is to be validated against.

It is one of the manifest's ``catalog_versions_supported``; without it, and on
hosts that do not know it, the manifest's ``catalog_version`` counts.
"""

_VERSION = re.compile(r"(?:0|[1-9][0-9]{0,5})(?:\.(?:0|[1-9][0-9]{0,5})){2}", re.ASCII)


def is_version(value: object) -> TypeGuard[str]:
    """Return whether ``value`` is text of the form MAJOR.MINOR.PATCH, each part of at most six digits."""
    return isinstance(value, str) and _VERSION.fullmatch(value) is not None


def version_of(text: str) -> tuple[int, ...]:
    """Return a catalog version, ready to compare."""
    return tuple(int(part) for part in text.split("."))


def common_version(preferred: str, known: Collection[str], supported: Collection[str]) -> str | None:
    """
    Return the catalog version for talking to a server (AGTP-API section 4.6).

    :param preferred: the client's own.
    :param known: every version the client can work with.
    :param supported: the manifest's ``catalog_versions_supported``.
    :return: the preferred one if the server has it, else the highest that both have; None without any.
    """
    if preferred in supported:
        return preferred
    return max(set(known) & set(supported), key=version_of, default=None)


def compatible_version(preferred: str, supported: Collection[str]) -> str | None:
    """
    Return the catalog version for a client that knows one version, and takes those that semver calls compatible.

    No method disappears within a MAJOR version (AGTP-API section 4.1), so each
    version of the preferred one's MAJOR will do: the highest below it, else
    the lowest above it.
    """
    if preferred in supported:
        return preferred
    wanted = version_of(preferred)
    near = sorted((version_of(version), version) for version in supported if version_of(version)[0] == wanted[0])
    below = [version for number, version in near if number < wanted]
    above = [version for number, version in near if number > wanted]
    return below[-1] if below else above[0] if above else None
