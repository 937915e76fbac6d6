"""
The AGTP certificate extensions: AGTP-CERT, companion section 9.1.

Values are raw octets, not wrapped in a further ASN.1 string. The numbers are
provisional: ``2.25.`` and the UUIDv5 (DNS namespace) of
``agtp-cert-ext.<short name>.nomotic.ai``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from cryptography import x509

from agtphost.vocabulary import scopes
from agtphost.vocabulary.identifiers import is_agent_id

ARCHETYPES = frozenset({"assistant", "analyst", "executor", "orchestrator", "monitor"})
"""Core v08 section 6.5.3: a classification, never a permission."""

MAX_PRINCIPAL_OCTETS = 256

_ZONE = re.compile(r"zone:[A-Za-z0-9_.:/-]{1,250}", re.ASCII)


class Extension(Enum):
    """An AGTP certificate extension: its object identifier, and whether certificates mark it critical."""

    oid: x509.ObjectIdentifier
    critical: bool

    def __new__(cls, dotted: str, critical: bool) -> Extension:
        member = object.__new__(cls)
        member._value_ = dotted
        member.oid = x509.ObjectIdentifier(dotted)
        member.critical = critical
        return member

    SUBJECT_AGENT_ID = "2.25.268315605531543067570885820853135175300", True
    """The canonical Agent-ID, 64 lower-case hex digits."""

    PRINCIPAL_ID = "2.25.1702125237121760683219637876567909613", True
    """The owner, UTF-8."""

    AUTHORITY_SCOPE_COMMITMENT = "2.25.282163161526436136340860154693646256049", True
    """Scope tokens, sorted, each once, joined by commas without spaces; empty commits to nothing at all."""

    GOVERNANCE_ZONE = "2.25.166172302800383381461126246055580541663", False
    """``zone:`` and a name."""

    TRUST_TIER = "2.25.198335757712203466569903271149789286606", False
    """A DER INTEGER from 1 to 3."""

    ARCHETYPE = "2.25.73414372111527645744102975685149753054", False
    """One of :data:`ARCHETYPES`."""

    ACTIVATION_CERTIFICATE_ID = "2.25.251807688045435852997712124138766290036", False
    """64 hex digits."""

    CTL_SCT = "2.25.265641071119838462866957460025010755013", False
    """A certificate log's receipt; never decides anything (AGTP-CERT section 3.1.2)."""

    @property
    def label(self) -> str:
        """The draft's short name."""
        return "agtp-ctl-sct" if self is Extension.CTL_SCT else self.name.lower().replace("_", "-")


AGTP_OIDS = frozenset(member.oid.dotted_string for member in Extension)


class ExtensionError(ValueError):
    """An extension's octets do not follow its definition."""


def _text(octets: bytes) -> str:
    try:
        text = octets.decode("utf-8")
    except UnicodeDecodeError:
        raise ExtensionError("it is not UTF-8") from None
    if not text.isprintable():
        raise ExtensionError("it has characters that cannot be printed")
    return text


def _identifier(octets: bytes) -> str:
    text = _text(octets)
    if not is_agent_id(text):
        raise ExtensionError("it is not 64 lower-case hex digits")
    return text


def _principal(octets: bytes) -> str:
    if not 1 <= len(octets) <= MAX_PRINCIPAL_OCTETS:
        raise ExtensionError(f"it does not have 1 to {MAX_PRINCIPAL_OCTETS} octets")
    return _text(octets)


def _commitment(octets: bytes) -> frozenset[str]:
    if not octets:
        return frozenset()
    tokens = _text(octets).split(",")
    if not all(scopes.is_token(token) for token in tokens):
        raise ExtensionError("one of its values is not a scope token")
    if len(tokens) > scopes.MAX_TOKENS:
        raise ExtensionError(f"it has more than {scopes.MAX_TOKENS} scope tokens")
    if tokens != sorted(set(tokens)):
        raise ExtensionError("its tokens are not sorted, or one is repeated")
    return frozenset(tokens)


def _zone(octets: bytes) -> str:
    text = _text(octets)
    if _ZONE.fullmatch(text) is None:
        raise ExtensionError("it is not 'zone:' and a name")
    return text


def _tier(octets: bytes) -> int:
    if len(octets) != 3 or octets[:2] != b"\x02\x01" or octets[2] not in (1, 2, 3):
        raise ExtensionError("it is not a DER INTEGER from 1 to 3")
    return octets[2]


def _archetype(octets: bytes) -> str:
    text = _text(octets)
    if text not in ARCHETYPES:
        raise ExtensionError("it is none of the archetypes")
    return text


READERS: dict[Extension, Callable[[bytes], Any]] = {
    Extension.SUBJECT_AGENT_ID: _identifier,
    Extension.PRINCIPAL_ID: _principal,
    Extension.AUTHORITY_SCOPE_COMMITMENT: _commitment,
    Extension.GOVERNANCE_ZONE: _zone,
    Extension.TRUST_TIER: _tier,
    Extension.ARCHETYPE: _archetype,
    Extension.ACTIVATION_CERTIFICATE_ID: _identifier,
}
"""How each value is read; :attr:`Extension.CTL_SCT` is opaque."""


def commitment_octets(tokens: Iterable[str]) -> bytes:
    """Return the canonical form of a scope commitment."""
    return ",".join(sorted(set(tokens))).encode("ascii")


def tier_octets(tier: int) -> bytes:
    """Return the DER INTEGER of a trust tier."""
    return bytes((2, 1, tier))


def extension_of(kind: Extension, octets: bytes) -> tuple[x509.UnrecognizedExtension, bool]:
    """
    Return an extension ready for a certificate builder: the value and its criticality.

    :raises ExtensionError: if the octets would not be read back.
    """
    try:
        READERS[kind](octets)
    except ExtensionError as error:
        raise ExtensionError(f"{kind.label}: {error}") from None
    return x509.UnrecognizedExtension(kind.oid, octets), kind.critical
