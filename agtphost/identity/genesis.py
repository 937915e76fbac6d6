"""
The Agent Genesis and the Agent-ID that follows from it: core v08 section 6.5.2, companion section 2.

The Agent-ID is the SHA-256 of the canonical form without ``signature``,
``agent_id`` and ``log_inclusion_proof``: a document cannot hold its own hash,
nor the proof of having been logged under it. Two narrower exclusions are
accepted from other issuers. Hash and signature always cover the same octets.

What lets two readers disagree about one text is refused before anything is
hashed: duplicate names, fractions, ``-0``, names outside ASCII (whose sort
order differs between readers), lone surrogates.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from agtphost.identity import encoding
from agtphost.identity.canonical import CanonicalError, ascii_escaped, canonical
from agtphost.identity.dns_anchor import EVIDENCE, unchecked_evidence
from agtphost.identity.extensions import ARCHETYPES
from agtphost.identity.keys import KeyFormatError, SigningKey, VerifyingKey
from agtphost.vocabulary import jsontext, scopes
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.identifiers import is_agent_id, is_owner_id
from agtphost.vocabulary.read_only import read_only

MAX_OCTETS = 65_536
"""A Genesis is about one kilobyte; a logged one a few more."""

EXCLUSIONS: tuple[tuple[str, ...], ...] = (
    ("signature", "agent_id", "log_inclusion_proof"),
    ("signature", "agent_id"),
    ("signature",),
)
"""What may be left out of the hash, in the order tried; issued is the first (companion conflicts 2a, 2b)."""

FORMS = {"canonical": canonical, "ascii-escaped": ascii_escaped}
"""Serializations tried; the second only verifies what deployed implementations signed."""

REQUIRED = (
    "agent_id",
    "owner",
    "archetype",
    "governance_zone",
    "scope",
    "issued_at",
    "issuer_public_key",
    "signature",
    "trust_tier",
)
"""Core v08 section 6.5.2."""

REQUIRED_OF_REFERENCE = ("owner_id", "issued_at", "issuer_public_key", "signature", "trust_tier")
"""The shape marked by ``agtp_genesis_version``, which deployed implementations write."""

VERIFIED_PATHS = frozenset({"dns-anchored", "log-anchored", "hybrid"})
"""What tier 1 rests on."""

PATHS = VERIFIED_PATHS | {"org-asserted"}
"""Every ``verification_path`` that core v08 defines."""

SELF_SIGNED = "self-signed"
"""A path of deployed implementations; read as ``org-asserted``."""

_NAME = re.compile(r"[\x21-\x7e]{1,128}", re.ASCII)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_TIMESTAMP = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:Z|[+-][0-9]{2}:[0-9]{2})",
    re.ASCII,
)
_NEGATIVE_ZERO = re.compile(r"-0(?![0-9])")


class GenesisError(ValueError):
    """A Genesis that is not to be believed; the message names the member that is wrong."""


def is_timestamp(value: object) -> bool:
    """Return whether ``value`` is an RFC 3339 time with its offset."""
    if not isinstance(value, str) or _TIMESTAMP.fullmatch(value) is None:
        return False
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


@dataclass(frozen=True, kw_only=True)
class Genesis:
    """A verified Genesis."""

    octets: bytes
    """As received: what ``DISCOVER /genesis`` returns (AGTP-API section 5.8.1)."""

    members: Mapping[str, Any]
    agent_id: str
    """Computed, never copied from the document."""

    owner: str
    """The responsible person or team, for people."""

    owner_id: str | None
    """The machine-readable owner; None where the document has none that follows the grammar."""

    trust_tier: int
    verification_path: str
    """As the document says, possibly a value that core v08 does not define; ``""`` where absent."""

    scopes: frozenset[str]
    """Empty in the reference's shape, whose scopes are in the Identity Document alone."""

    archetype: str | None
    governance_zone: str | None
    issued_at: str
    issuer_key: VerifyingKey
    agent_key: VerifyingKey | None
    """The agent's own, which its certificate has to have; None where the document names none."""

    self_signed: bool
    """Whether the issuer is the agent itself: for development only."""

    notes: tuple[str, ...] = field(default=())
    """What an operator should know: how the document differs from core v08."""

    @property
    def issuer_fingerprint(self) -> str:
        """SHA-256 of the issuer's raw key, hex: who may change the lifecycle (core v08 section 7.2.19)."""
        return self.issuer_key.fingerprint

    @classmethod
    def load(cls, octets: bytes) -> Genesis:
        """
        Read and verify a Genesis.

        :raises GenesisError: naming what is wrong.
        """
        members = decode(octets)
        reference = "agtp_genesis_version" in members
        _check_members(members, REQUIRED_OF_REFERENCE if reference else REQUIRED)
        issuer_key = _issuer_key(members)
        agent_key = _agent_key(members)
        agent_id, form, excluded = _verify(members, issuer_key)
        notes = _notes(members, form, excluded)
        owner = members.get("owner") or members.get("owner_id") or ""
        owner_id = members.get("owner_id") or (owner if is_owner_id(owner) else None)
        return cls(
            octets=octets,
            members=read_only(members),
            agent_id=agent_id,
            owner=owner,
            owner_id=owner_id,
            trust_tier=members["trust_tier"],
            verification_path=members.get("verification_path") or "",
            scopes=frozenset(members.get("scope") or ()),
            archetype=members.get("archetype"),
            governance_zone=members.get("governance_zone"),
            issued_at=members["issued_at"],
            issuer_key=issuer_key,
            agent_key=agent_key,
            self_signed=members.get("verification_path") == SELF_SIGNED or agent_key == issuer_key,
            notes=notes,
        )


def _walk(value: Any) -> Iterator[Any]:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        yield item
        if isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)


def decode(octets: bytes) -> dict[str, Any]:
    """
    Read the JSON object of a Genesis, with one possible meaning only (T-CN).

    :raises GenesisError: saying what is ambiguous.
    """
    if len(octets) > MAX_OCTETS:
        raise GenesisError(f"it has more than {MAX_OCTETS} octets")
    try:
        members = jsontext.decode(octets, max_depth=jsontext.SIGNED_DEPTH)
    except jsontext.JSONTextError as error:
        raise GenesisError(str(error)) from None
    if not isinstance(members, dict):
        raise GenesisError("it is not a JSON object")
    for item in _walk(members):
        if isinstance(item, float):
            raise GenesisError("a number has a fraction or an exponent")
        if isinstance(item, dict) and not all(_NAME.fullmatch(name) for name in item):
            raise GenesisError("a name is not 1 to 128 visible ASCII characters")
    if b"-0" in octets and _NEGATIVE_ZERO.search(_STRING.sub('""', octets.decode("utf-8"))):
        raise GenesisError("a number is -0")
    return members


# Members


def _require(members: Mapping[str, Any], name: str, holds: bool, rule: str) -> None:
    if not holds:
        raise GenesisError(f"{name}: {rule}")


def _is_line(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 1024 and value.isprintable()


def _check_members(members: Mapping[str, Any], required: Iterable[str]) -> None:
    for name in required:
        _require(members, name, members.get(name) is not None, "it is missing")
    for name in ("owner", "governance_zone", "org_domain", "org_label", "package_ref"):
        value = members.get(name)
        _require(members, name, value is None or _is_line(value), "it is not a line of text")
    value = members.get("agent_id")
    _require(members, "agent_id", value is None or (isinstance(value, str) and is_agent_id(value)),
             "it is not 64 lower-case hex digits")  # fmt: skip
    value = members.get("owner_id")
    _require(members, "owner_id", value is None or (isinstance(value, str) and is_owner_id(value)),
             "it is not 1 to 256 letters, digits, or -_:.")  # fmt: skip
    value = members.get("archetype")
    _require(members, "archetype", value is None or (isinstance(value, str) and value in ARCHETYPES),
             f"it is none of {', '.join(sorted(ARCHETYPES))}")  # fmt: skip
    value = members.get("scope")
    _require(members, "scope", value is None or scopes.are_tokens(value), "it is not an array of scope tokens")
    _require(members, "issued_at", is_timestamp(members["issued_at"]), "it is not an RFC 3339 time")
    _require(members, "signature", isinstance(members["signature"], str), "it is not text")
    _check_trust(members)


def _check_trust(members: Mapping[str, Any]) -> None:
    tier = members["trust_tier"]
    _require(members, "trust_tier", type(tier) is int and tier in (1, 2, 3), "it is not 1, 2 or 3")
    path = members.get("verification_path")
    _require(members, "verification_path", path is None or _is_line(path), "it is not a line of text")
    if tier == 1:
        verified = path not in (None, "org-asserted", SELF_SIGNED)
        _require(members, "verification_path", verified, "tier 1 needs dns-anchored, log-anchored or hybrid")
    if path == "log-anchored":
        proof = members.get("log_inclusion_proof")
        _require(members, "log_inclusion_proof", bool(proof), "it is missing; log-anchored needs it")
    if path in ("dns-anchored", "hybrid"):
        domain = members.get("org_domain")
        _require(members, "org_domain", domain is not None, f"it is missing; {path} needs it")


def _issuer_key(members: Mapping[str, Any]) -> VerifyingKey:
    text = members["issuer_public_key"]
    _require(members, "issuer_public_key", isinstance(text, str), "it is not text")
    try:
        return VerifyingKey.from_text(text)
    except KeyFormatError as error:
        raise GenesisError(f"issuer_public_key: {error}") from None


def _agent_key(members: Mapping[str, Any]) -> VerifyingKey | None:
    """Return the agent's own key, where its Genesis names one as deployed implementations do."""
    text = members.get("agent_public_key")
    if text is None:
        return None
    _require(members, "agent_public_key", isinstance(text, str), "it is not text")
    try:
        return VerifyingKey.from_text(text)
    except KeyFormatError as error:
        raise GenesisError(f"agent_public_key: {error}") from None


# Hash and signature


def _candidates(members: Mapping[str, Any]) -> Iterator[tuple[bytes, str, tuple[str, ...]]]:
    """Yield the octets that hash and signature may cover: each once, with its form and what it leaves out."""
    seen = set()
    for form, serialize in FORMS.items():
        for excluded in EXCLUSIONS:
            octets = serialize({name: value for name, value in members.items() if name not in excluded})
            if octets not in seen:
                seen.add(octets)
                yield octets, form, excluded


def _verify(members: Mapping[str, Any], issuer_key: VerifyingKey) -> tuple[str, str, tuple[str, ...]]:
    """
    Find the octets that the signature covers and that hash to ``agent_id``.

    :return: the Agent-ID, and the name and exclusions of the form that matched.
    """
    try:
        signature = encoding.decode_padded(members["signature"])
    except ValueError as error:
        raise GenesisError(f"signature: {explain(error)}") from error
    claimed = members.get("agent_id")
    named = False
    try:
        for octets, form, excluded in _candidates(members):
            agent_id = hashlib.sha256(octets).hexdigest()
            if claimed is not None and claimed != agent_id:
                continue
            named = True
            if issuer_key.verify(signature, octets):
                return agent_id, form, excluded
    except CanonicalError as error:
        raise GenesisError(str(error)) from None
    if not named:
        raise GenesisError("agent_id: it is not the hash of the Genesis")
    raise GenesisError("signature: it does not match issuer_public_key")


def _notes(members: Mapping[str, Any], form: str, excluded: tuple[str, ...]) -> tuple[str, ...]:
    notes = []
    if form != "canonical":
        notes.append(f"the Genesis verifies in its {form} form only")
    if excluded != EXCLUSIONS[0]:
        notes.append(f"the Agent-ID leaves out {' and '.join(excluded)} only")
    if "-----BEGIN" in members["issuer_public_key"]:
        notes.append("issuer_public_key is PEM, where core v08 has base64url")
    evidence = members.get(EVIDENCE)
    if members["trust_tier"] == 1 and (not isinstance(evidence, dict) or evidence.get("method", "none") == "none"):
        notes.append("it claims tier 1 and does not say what its issuer looked at; nothing was looked at here")
    return tuple(notes)


# Issuing


def agent_id_of(members: Mapping[str, Any]) -> str:
    """
    Return the Agent-ID that a Genesis of ``members`` has.

    :raises CanonicalError: if they have no canonical form.
    """
    return hashlib.sha256(_covered_octets(members)).hexdigest()


def _covered_octets(members: Mapping[str, Any]) -> bytes:
    return canonical({name: value for name, value in members.items() if name not in EXCLUSIONS[0]})


def issue(
    issuer: SigningKey,
    *,
    owner: str,
    archetype: str,
    governance_zone: str,
    scope: Iterable[str],
    issued_at: str,
    owner_id: str | None = None,
    trust_tier: int = 2,
    verification_path: str = "org-asserted",
    agent_key: VerifyingKey | None = None,
    production: bool = False,
    members: Mapping[str, Any] | None = None,
    evidence: Mapping[str, Any] | None = None,
) -> bytes:
    """
    Make and sign a Genesis.

    :param issued_at: RFC 3339 UTC; two Genesis documents that differ in nothing
        else get their own Agent-IDs from it.
    :param owner_id: None where ``owner`` serves as identifier too.
    :param agent_key: the agent's own key, if it is to be named; it equals the
        issuer's in a self-signed Genesis.
    :param members: further members: ``org_domain``, ``org_label``, ``log_inclusion_proof`` ...
    :param evidence: what the issuer looked at (:mod:`agtphost.identity.dns_anchor`); tier 1 needs it, and without any,
        an ``org_domain`` is marked as unchecked.
    :return: canonical JSON.
    :raises GenesisError: for values that :meth:`Genesis.load` would refuse, for
        a self-signed Genesis in production, and for tier 1 that rests on nothing.
    """
    if trust_tier == 1 and evidence is None:
        raise GenesisError("verification_path: tier 1 is issued only after its evidence was looked at")
    if evidence is None and (members or {}).get("org_domain"):
        evidence = unchecked_evidence("org_domain")
    if production and (verification_path == SELF_SIGNED or agent_key == issuer.public):
        raise GenesisError("issuer_public_key: a self-signed Genesis is for development only")
    document: dict[str, Any] = {
        **(members or {}),
        "owner": owner,
        "archetype": archetype,
        "governance_zone": governance_zone,
        "scope": sorted(set(scope)),
        "issued_at": issued_at,
        "trust_tier": trust_tier,
        "verification_path": verification_path,
        "issuer_public_key": issuer.public.text,
    }
    if evidence is not None:
        document[EVIDENCE] = dict(evidence)
    if owner_id is not None:
        document["owner_id"] = owner_id
    if agent_key is not None:
        document["agent_public_key"] = agent_key.text
    try:
        covered = _covered_octets(document)
        document["agent_id"] = hashlib.sha256(covered).hexdigest()
        document["signature"] = encoding.encode(issuer.sign(covered)).decode("ascii")
        octets = canonical(document)
    except CanonicalError as error:
        raise GenesisError(str(error)) from None
    Genesis.load(octets)
    return octets
