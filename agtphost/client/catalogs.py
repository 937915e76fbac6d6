"""
Which version of the method catalog a client and a server use: AGTP-API section 4.6.

The server's manifest lists the versions that it can validate against. Once
one is agreed on with a server that has several, each later call to it carries
``AGTP-Catalog-Version`` (:mod:`agtphost.vocabulary.catalog_versions`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from agtphost.client.errors import CatalogMismatch, InvalidCall, VerificationFailed
from agtphost.client.reply import Reply
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.catalog_versions import common_version, compatible_version, is_version

MAX_TOKENS = 2_000_000
"""Values and names in a manifest: enough for ten thousand endpoints with their schemas."""

MAX_VERSIONS = 1_000
"""The most versions in one manifest; a longer list is not credible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """The result of negotiating a catalog version."""

    version: str
    stated: bool
    """Whether calls have to name it: the server has several."""


def check_versions(preferred: str, known: Collection[str] | None) -> None:
    """
    Check what a caller prefers.

    :raises InvalidCall: for a text that is not a version.
    """
    for version in (preferred, *(known or ())):
        if not is_version(version):
            raise InvalidCall(
                f"{str(version)[:40]!r} is not a catalog version.", "Write MAJOR.MINOR.PATCH, such as 1.1.0."
            )


def agree(manifest: Reply, preferred: str, known: Collection[str] | None = None) -> Agreement:
    """
    Choose a version from a server's manifest.

    :param manifest: the answer to an anonymous ``DISCOVER /``.
    :param preferred: the client's own version; taken wherever the server has it.
    :param known: every version that the client can work with; None: those of the preferred one's MAJOR
        version, among which no method disappears (AGTP-API section 4.1).
    :raises CatalogMismatch: if the two have none in common.
    :raises VerificationFailed: if the manifest does not say.
    """
    supported = _supported_versions(manifest)
    if known is None:
        version = compatible_version(preferred, supported)
    else:
        version = common_version(preferred, known, supported)
    if version is None:
        raise CatalogMismatch(
            f"The server has catalog {', '.join(supported[:20])}, which a client of {preferred} cannot use.",
            "Ask the principal, or use another catalog.",
            preferred=preferred,
            supported=tuple(supported),
        )
    return Agreement(version=version, stated=len(supported) > 1)


def _supported_versions(manifest: Reply) -> list[str]:
    try:
        document = jsontext.decode(manifest.body, max_tokens=MAX_TOKENS)
    except jsontext.JSONTextError:
        document = None
    members = document if isinstance(document, dict) else {}
    # A server of the drafts' first version may list only the one it has.
    listed = members.get("catalog_versions_supported", [members.get("catalog_version")])
    if not isinstance(listed, list) or not 0 < len(listed) <= MAX_VERSIONS or not all(map(is_version, listed)):
        raise VerificationFailed(
            "The server's manifest does not say which catalog versions it supports.", "Ask its operator."
        )
    return list(dict.fromkeys(listed))
