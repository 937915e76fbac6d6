"""
Trust posture: an agent's tier, verification path and owner (companion section 3.1, AGTP-TRUST section 3.6).

For each field the first source that has it wins: the Identity Document, the
verified Genesis, a conservative default. A posture is about the agent that
responds; it never comes from ``trust_score``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agtphost.identity.genesis import PATHS, SELF_SIGNED, Genesis
from agtphost.identity.keys import VerifyingKey
from agtphost.vocabulary.identifiers import is_owner_id

DEFAULT_TIER = 2
DEFAULT_PATH = "org-asserted"

INCOMPLETE = "verification-incomplete"
UNSUPPORTED = "verification-path-unsupported"
DEGRADED = "trust-score-degraded"
ENTITY = "legal-entity-unverified"
"""What merchants of tier 2 carry (AGTP-MERCHANT)."""

EXPLANATIONS = {
    INCOMPLETE: "The owner's claim to this agent was asserted by its organization, not verified by others.",
    UNSUPPORTED: "The agent names a verification path that this host cannot follow; it is treated as tier 2.",
    ENTITY: "Which legal entity the merchant is was asserted by its organization, not verified by others.",
    DEGRADED: "The agent's trust score is below the threshold that its issuer set.",
}
"""``trust_explanation`` of each warning that this host sets."""

SCORE_THRESHOLD = 0.4
"""Below the range in which new agents start (AGTP-TRUST section 6)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustPosture:
    """The resolved posture of one agent."""

    trust_tier: int
    """1 (verified), 2 (asserted) or 3 (development)."""

    verification_path: str
    owner_id: str | None = None
    trust_warning: str | None = None
    trust_explanation: str | None = None
    """Present whenever ``trust_warning`` is."""

    sources: tuple[str, ...] = ()
    """Which fields came from Genesis or default: for the log at start."""

    notes: tuple[str, ...] = ()
    """What was overridden or is doubtful: for the log at start."""

    def fields(self) -> dict[str, Any]:
        """Return the members that a served Identity Document states them by."""
        members = {
            "trust_tier": self.trust_tier,
            "verification_path": self.verification_path,
            "owner_id": self.owner_id,
            "trust_warning": self.trust_warning,
            "trust_explanation": self.trust_explanation,
        }
        return {name: value for name, value in members.items() if value is not None}


def _present(document: Mapping[str, Any], name: str) -> bool:
    return document.get(name) is not None


def _tier(document: Mapping[str, Any], genesis: Genesis | None, sources: list[str], notes: list[str]) -> int:
    if _present(document, "trust_tier"):
        tier: int = document["trust_tier"]
        if genesis is not None and tier < genesis.trust_tier:
            notes.append(f"trust_tier {tier} of the document outdoes the Genesis's {genesis.trust_tier}")
        return tier
    if genesis is None:
        sources.append(f"trust_tier {DEFAULT_TIER} by default")
        return DEFAULT_TIER
    sources.append(f"trust_tier {genesis.trust_tier} from the Genesis")
    if genesis.verification_path == "log-anchored" and not genesis.members.get("log_uri"):
        notes.append("the Genesis is log-anchored without log_uri and cannot be verified: tier 2")
        return max(genesis.trust_tier, 2)
    return genesis.trust_tier


def _path(document: Mapping[str, Any], genesis: Genesis | None, sources: list[str]) -> str:
    if _present(document, "verification_path"):
        path: str = document["verification_path"]
    elif genesis is not None and genesis.verification_path:
        path = genesis.verification_path
        sources.append(f"verification_path {path} from the Genesis")
    else:
        path = DEFAULT_PATH
        sources.append(f"verification_path {DEFAULT_PATH} by default")
    return DEFAULT_PATH if path == SELF_SIGNED else path


def _owner(document: Mapping[str, Any], genesis: Genesis | None, sources: list[str]) -> str | None:
    if _present(document, "owner_id"):
        owner: str = document["owner_id"]
        return owner
    if genesis is None or genesis.owner_id is None:
        return None
    sources.append(f"owner_id {genesis.owner_id} from the Genesis")
    return genesis.owner_id


def _warning(document: Mapping[str, Any], tier: int, path: str, threshold: float) -> str | None:
    stated: str | None = document.get("trust_warning")
    if path not in PATHS:
        return UNSUPPORTED
    if stated:
        return stated
    if tier == 2:
        return ENTITY if document.get("role") == "merchant" else INCOMPLETE
    score = document.get("trust_score")
    return DEGRADED if isinstance(score, (int, float)) and score < threshold else None


def posture_faults(document: Mapping[str, Any]) -> list[str]:
    """Return the faults of the posture members of ``document``; each message starts with the member's name."""
    faults = []
    tier = document.get("trust_tier")
    if tier is not None and (type(tier) is not int or tier not in (1, 2, 3)):
        faults.append("trust_tier: it is not 1, 2 or 3")
    owner = document.get("owner_id")
    if owner is not None and not (isinstance(owner, str) and is_owner_id(owner)):
        faults.append("owner_id: it is not 1 to 256 letters, digits, or -_:.")
    for name in ("verification_path", "trust_warning"):
        value = document.get(name)
        if value is not None and not _is_ascii_line(value):
            faults.append(f"{name}: it is not a line of ASCII text")
    return faults


def _is_ascii_line(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and value.isprintable() and 0 < len(value) <= 256


def contradiction(document: Mapping[str, Any], genesis: Genesis | None) -> str:
    """
    Compare the verification path of a document with that of its Genesis (core v08 section 6.3).

    :return: the fault; empty if there is none.
    """
    stated = document.get("verification_path")
    if genesis is None or stated is None or not genesis.verification_path:
        return ""
    if _path(document, genesis, []) == _path({}, genesis, []):
        return ""
    return f"verification_path: the Genesis has {genesis.verification_path!r}, the document {stated!r}"


def resolve_posture(
    document: Mapping[str, Any],
    genesis: Genesis | None,
    *,
    issuer_known: bool = True,
    threshold: float = SCORE_THRESHOLD,
) -> TrustPosture:
    """
    Resolve an agent's posture.

    :param document: an Identity Document without faults.
    :param genesis: its verified Genesis; None where none was loaded.
    :param issuer_known: False caps the tier at 2: no trust anchor vouches for the Genesis's issuer.
    :param threshold: the ``trust_score`` under which a warning is added.
    """
    sources: list[str] = []
    notes: list[str] = []
    tier = _tier(document, genesis, sources, notes)
    path = _path(document, genesis, sources)
    if path not in PATHS:
        notes.append(f"verification_path {path!r} is unknown: tier 2")
        tier = max(tier, 2)
    if not issuer_known and tier < 2:
        notes.append("no trusted issuer vouches for the Genesis: tier 2")
        tier = 2
    warning = _warning(document, tier, path, threshold)
    explanation = None
    if warning is not None:
        explanation = document.get("trust_explanation") or EXPLANATIONS.get(warning, f"{warning}.")
    return TrustPosture(
        trust_tier=tier,
        verification_path=path,
        owner_id=_owner(document, genesis, sources),
        trust_warning=warning,
        trust_explanation=explanation,
        sources=tuple(sources),
        notes=tuple(notes),
    )


def issuer_keys(entries: Iterable[str], folder: Path) -> frozenset[VerifyingKey]:
    """
    Return the keys of ``[identity] trusted_issuers``.

    :param entries: base64url keys, or ``file:PATH`` of a PEM or base64url file.
    :param folder: what relative paths are relative to.
    :raises agtphost.identity.keys.KeyFormatError: for an entry that is neither.
    :raises OSError: for a file that cannot be read.
    """
    return frozenset(
        VerifyingKey.load(folder / entry.removeprefix("file:"))
        if entry.startswith("file:")
        else VerifyingKey.from_text(entry)
        for entry in entries
    )


# Registrars

ANY_ZONE = "*"
"""The zone of registrars that are trusted wherever no others are named."""


@dataclass(frozen=True, kw_only=True)
class TrustedIssuers:
    """
    The keys whose signatures over Genesis and Identity Document count, by governance zone (core v08 section 6.3.5).

    In a zone with named registrars, only these count: the registrar of one zone must not be able to sign for another.
    """

    everywhere: Collection[VerifyingKey] = ()
    """Trusted in every zone."""

    zones: Mapping[str, Collection[VerifyingKey]] = field(default_factory=dict)
    """Registrars of each zone; those of :data:`ANY_ZONE` stand in for zones that are not named."""

    awaited: bool = False
    """Whether keys of identity providers may be added later: until then unknown issuers are unresolved."""

    def __bool__(self) -> bool:
        return bool(self.everywhere or self.zones or self.awaited)

    def keys_for(self, zone: str | None) -> frozenset[VerifyingKey]:
        """Return the keys that count for an agent of ``zone``; None: without a zone."""
        named = self.zones.get(zone) if zone else None
        registrars = self.zones.get(ANY_ZONE, ()) if named is None else named
        return frozenset(self.everywhere) | frozenset(registrars)

    def knows(self, key: VerifyingKey, zone: str | None) -> bool:
        """Return whether ``key`` may sign for ``zone``."""
        return key in self.keys_for(zone)


def trusted_issuers(
    everywhere: Iterable[str],
    registrars: Mapping[str, Iterable[str]],
    folder: Path,
    *,
    anchored: Iterable[str] = (),
    awaited: bool = False,
) -> TrustedIssuers:
    """
    Return the issuers of ``[identity] trusted_issuers``, ``[identity.registrars]`` and ``[[identity.anchor]]``.

    :param anchored: keys of the anchors of type ``key``.
    :param awaited: whether there are anchors whose keys come from an identity provider.
    :raises agtphost.identity.keys.KeyFormatError: for an entry that is not a key.
    :raises OSError: for a file that cannot be read.
    """
    return TrustedIssuers(
        everywhere=issuer_keys([*everywhere, *anchored], folder),
        zones={zone: issuer_keys(keys, folder) for zone, keys in registrars.items()},
        awaited=awaited,
    )
