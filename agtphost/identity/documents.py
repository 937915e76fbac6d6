"""
The Agent Identity Document: core v08 section 6.3, companion section 3.

A document is read in the core shape or in that of deployed implementations, and served in the core shape. Lifecycle
state is kept elsewhere and laid over it; a served copy that differs from what the registrar signed goes out without the
signature, never with one that fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from agtphost.identity import encoding
from agtphost.identity.canonical import CanonicalError, ascii_escaped, canonical
from agtphost.identity.genesis import is_timestamp
from agtphost.identity.keys import KeyFormatError, Signer, SigningKey, VerifyingKey
from agtphost.identity.trust import posture_faults
from agtphost.vocabulary import jsontext, scopes
from agtphost.vocabulary.catalog import FLOOR
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.identifiers import is_agent_id

DOCUMENT_TYPE = "agtp-identity"

MAX_OCTETS = 262_144
"""A quarter of the largest body."""

REQUIRED = (
    "agtp_version",
    "document_type",
    "document_version",
    "agent_id",
    "name",
    "description",
    "principal",
    "principal_id",
    "issuer",
    "issued_at",
    "updated_at",
    "status",
    "methods",
    "capabilities",
    "scopes_accepted",
    "trust_score",
)
"""Core v08 section 6.3."""

RECOMMENDED = (
    "trust_tier",
    "verification_path",
    "owner_id",
    "role",
    "org_domain",
    "governance_zone",
    "cert_fingerprint",
    "cert_status",
    "dns_anchor_record",
    "log_inclusion_proof",
    "package_format",
    "package_integrity_hash",
    "audit_log_uri",
    "escalation_policy",
    "delegation_permitted",
    "max_delegation_depth",
    "manifest_issuer",
    "manifest_issuer_public_key",
    "manifest_signature",
)
CONDITIONAL = ("trust_warning", "trust_explanation", "successor_agent_id", "migration_deadline")
COMPANIONS = (
    "trust_score_computed_at",
    "trust_score_dimensions",
    "archetype",
    "skills",
    "requires",
    "wildcards",
    "policies",
    "merchant_category_codes",
    "accepted_payment_networks",
    "merchant_reliability_score",
)
"""What companion drafts and deployed implementations add to a document."""

MERCHANT = (
    "legal_entity_name",
    "merchant_category_code",
    "registered_jurisdiction",
    "dispute_policy_uri",
    "refund_policy_uri",
)
"""Served of agents whose role is merchant, and of no others (AGTP-MERCHANT)."""

SIGNATURE_FIELDS = ("manifest_issuer", "manifest_issuer_public_key", "manifest_signature")
"""Written by the registrar alone: core v08 section 6.3.5."""

SCHEMA = frozenset({*REQUIRED, *RECOMMENDED, *CONDITIONAL, *COMPANIONS})
"""Every member that is ever served; nothing else leaves this host (core v08 section 6.3, AGTP-111, AGTP-152)."""

STATUSES = {
    "active": "active",
    "suspended": "suspended",
    "retired": "retired",
    "revoked": "retired",
    "deprecated": "deprecated",
}
"""Every status word, lower case, and what it means (companion section 6.3)."""

ROLES = frozenset({"agent", "merchant"})

NEW_AGENT_SCORE = 0.5
"""``trust_score`` of an agent without a score: the middle of what new ones get (AGTP-TRUST section 6)."""

_REFERENCE_VERSION = re.compile(r"v[0-9]+", re.ASCII)


class DocumentError(ValueError):
    """
    An Identity Document that must not be served.

    :param faults: every reason, each beginning with the name of its member.
    """

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(self.faults))


# Reading


def decode(octets: bytes) -> dict[str, Any]:
    """
    Read the JSON object of a document.

    :raises DocumentError: if it is none.
    """
    if len(octets) > MAX_OCTETS:
        raise DocumentError([f"it has more than {MAX_OCTETS} octets"])
    try:
        document = jsontext.decode(octets, max_depth=jsontext.SIGNED_DEPTH)
    except jsontext.JSONTextError as error:
        raise DocumentError([str(error)]) from None
    if not isinstance(document, dict):
        raise DocumentError(["it is not a JSON object"])
    return document


def is_reference_shape(document: Mapping[str, Any]) -> bool:
    """Return whether ``document`` has the shape of deployed implementations (``document_version`` ``v2``)."""
    version = document.get("document_version")
    return (
        "document_type" not in document
        and isinstance(version, str)
        and _REFERENCE_VERSION.fullmatch(version) is not None
    )


def core_shape(document: Mapping[str, Any]) -> dict[str, Any]:
    """
    ``document`` in the shape of core v08; a document in that shape comes back as it was.

    What the other shape lacks gets the value that grants and claims least.
    """
    if not is_reference_shape(document):
        return dict(document)
    requires = _table(document, "requires")
    methods = requires.get("methods")
    if methods is None and document.get("document_version") == "v1":
        methods = document.get("capabilities")
    owner = document.get("owner_id") or document.get("principal") or ""
    defaults: dict[str, Any] = {
        "agtp_version": "1.0",
        "description": "",
        "principal": owner,
        "principal_id": owner,
        "issuer": "",
        "updated_at": document.get("issued_at"),
        "status": "active",
        "scopes_accepted": requires.get("scopes", []),
        "trust_score": NEW_AGENT_SCORE,
    }
    return {
        **defaults,
        **{name: value for name, value in document.items() if value is not None},
        "document_type": DOCUMENT_TYPE,
        "document_version": "1.0",
        "methods": _with_floor(methods if isinstance(methods, list) else []),
        "capabilities": _skill_names(document.get("skills")),
    }


def _table(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def _skill_names(skills: object) -> list[str]:
    listed = skills if isinstance(skills, list) else []
    names = [skill.get("name") if isinstance(skill, dict) else skill for skill in listed]
    return [name for name in names if isinstance(name, str)]


def _with_floor(methods: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys([*FLOOR, *methods]))


def status_of(document: Mapping[str, Any]) -> str:
    """
    Return the lifecycle word of a document without faults, as core v08 spells it.

    Read in any case; ``revoked`` means ``retired`` (companion section 6.3).
    """
    return STATUSES[document["status"].lower()]


def declared_scopes(document: Mapping[str, Any]) -> frozenset[str]:
    """
    Return the scopes that the agent may use: ``requires.scopes`` if present, else ``scopes_accepted`` (companion
    section 3).
    """
    required = _table(document, "requires").get("scopes")
    return frozenset(document["scopes_accepted"] if required is None else required)


def read_scopes(octets: bytes) -> frozenset[str]:
    """
    Return the scopes that a document declares.

    :raises DocumentError: if it is none, or declares none.
    """
    document = decode(octets)
    try:
        return declared_scopes(document)
    except (KeyError, TypeError):
        raise DocumentError(["it declares no scopes in scopes_accepted"]) from None


def update_time(document: Mapping[str, Any]) -> float:
    """Return when a document without faults was issued last, in seconds since the Unix epoch."""
    return _moment(document["updated_at"]).timestamp()


# Faults


def _is_line(value: object, least: int = 1) -> bool:
    return isinstance(value, str) and least <= len(value) <= 1024 and value.isprintable()


def _is_text(value: object) -> bool:
    return isinstance(value, str) and all(mark.isprintable() or mark in "\n\t" for mark in value)


def _is_agent_id(value: object) -> bool:
    return isinstance(value, str) and is_agent_id(value)


def _is_list_of_lines(value: object) -> bool:
    return isinstance(value, list) and all(_is_line(item) for item in value)


def _is_score(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1  # type: ignore[operator]


_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "agtp_version": (_is_line, "a line of text"),
    "document_type": (lambda value: value == DOCUMENT_TYPE, f"{DOCUMENT_TYPE!r}"),
    "document_version": (_is_line, "a line of text"),
    "agent_id": (_is_agent_id, "64 lower-case hex digits"),
    "name": (_is_line, "a line of text"),
    "description": (_is_text, "text"),
    "principal": (lambda value: _is_line(value, 0), "a line of text"),
    "principal_id": (lambda value: _is_line(value, 0), "a line of text"),
    "issuer": (lambda value: _is_line(value, 0), "a line of text"),
    "issued_at": (is_timestamp, "an RFC 3339 time"),
    "updated_at": (is_timestamp, "an RFC 3339 time"),
    "status": (
        lambda value: isinstance(value, str) and value.lower() in STATUSES,
        "active, suspended, retired or deprecated",
    ),
    "methods": (_is_list_of_lines, "an array of method names"),
    "capabilities": (_is_list_of_lines, "an array of lines of text"),
    "scopes_accepted": (scopes.are_tokens, "an array of scope tokens"),
    "trust_score": (_is_score, "a number from 0 to 1"),
}


def faults_of(document: Mapping[str, Any]) -> list[str]:
    """
    Return what is wrong with a document in the core shape; each message begins with a member's name.

    The signature is looked at by :func:`check_signature`.
    """
    faults = []
    for name, (holds, what) in _RULES.items():
        if name not in document:
            faults.append(f"{name}: it is missing")
        elif not holds(document[name]):
            faults.append(f"{name}: it is not {what}")
    if not isinstance(document.get("requires", {}), dict):
        faults.append("requires: it is not an object")
    required = _table(document, "requires").get("scopes")
    if required is not None and not scopes.are_tokens(required):
        faults.append("requires.scopes: it is not an array of scope tokens")
    faults.extend(posture_faults(document))
    if not faults and _moment(document["updated_at"]) < _moment(document["issued_at"]):
        faults.append("updated_at: it is before issued_at")
    return faults


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def remarks_on(document: Mapping[str, Any]) -> list[str]:
    """Return what an operator should know about a document without faults."""
    remarks = []
    role = document.get("role", "agent")
    if role not in ROLES:
        remarks.append(f"role {role!r} is unknown and treated as agent")
    lacking = [name for name in FLOOR if name not in document["methods"]]
    if lacking:
        remarks.append(f"methods lacks {', '.join(lacking)}, which are served anyway")
    if "trust_score_computed_at" not in document:
        remarks.append("trust_score has no trust_score_computed_at: no decision may rest on it")
    beyond = sorted(document.keys() - _served_members(document))
    if beyond:
        listed = ", ".join(name[:64] for name in beyond[:8])
        remarks.append(f"{listed}: no part of an Identity Document, and never served")
    present = [name for name in SIGNATURE_FIELDS if document.get(name) is not None]
    if 0 < len(present) < len(SIGNATURE_FIELDS):
        remarks.append(f"only {' and '.join(present)} of the three signature members: treated as unsigned")
    return remarks


def _served_members(document: Mapping[str, Any]) -> frozenset[str]:
    return SCHEMA.union(MERCHANT) if role_of(document) == "merchant" else SCHEMA


def role_of(document: Mapping[str, Any]) -> str:
    """``agent`` or ``merchant``; an unknown role is ``agent`` (core v08 section 6.3)."""
    role = document.get("role", "agent")
    return role if isinstance(role, str) and role in ROLES else "agent"


# Signature


def _without_signature(document: Mapping[str, Any], names: Iterable[str] = SIGNATURE_FIELDS) -> dict[str, Any]:
    left_out = frozenset(names)
    return {name: value for name, value in document.items() if name not in left_out}


def check_signature(document: Mapping[str, Any]) -> VerifyingKey | None:
    """
    Verify the registrar's signature over ``document`` as received.

    Says who signed, not whether that is a registrar to be trusted.

    :return: the key that signed; None where the document is not signed, or only
        some of the three members are there.
    :raises DocumentError: if the signature fails; the document must not be served.
    """
    if any(document.get(name) is None for name in SIGNATURE_FIELDS):
        return None
    issuer, text, signature = (document[name] for name in SIGNATURE_FIELDS)
    if not (_is_line(issuer) and isinstance(text, str) and isinstance(signature, str)):
        raise DocumentError(["manifest_signature: the three signature members are not text"])
    try:
        key = VerifyingKey.from_text(text)
    except KeyFormatError as error:
        raise DocumentError([f"manifest_issuer_public_key: {error}"]) from None
    try:
        octets = encoding.decode_padded(signature)
    except ValueError as error:
        raise DocumentError([f"manifest_signature: {explain(error)}"]) from error
    covered = _without_signature(document, ("manifest_signature",))
    try:
        forms = {canonical(covered), ascii_escaped(covered)}
    except CanonicalError as error:
        raise DocumentError([f"manifest_signature: {error}"]) from None
    if not any(key.verify(octets, form) for form in forms):
        raise DocumentError(["manifest_signature: it does not match the document"])
    return key


def sign(document: Mapping[str, Any], issuer: str, key: SigningKey) -> dict[str, Any]:
    """
    Return a signed copy of ``document``; signature members that the caller put there are dropped first.

    :param issuer: the registrar's name: ``manifest_issuer``.
    :raises DocumentError: naming every fault of the document.
    """
    unsigned = _without_signature(document)
    faults = faults_of(unsigned)
    if faults:
        raise DocumentError(faults)
    return sign_copy(unsigned, issuer, key.public, key)


def sign_copy(document: Mapping[str, Any], issuer: str, public: VerifyingKey, signer: Signer) -> dict[str, Any]:
    """
    Sign a copy of a document without faults, by the host that serves it (core v08 section 6.1, step 7).

    :param public: the public half of ``signer``.
    """
    signed = _without_signature(document)
    signed["manifest_issuer"] = issuer
    signed["manifest_issuer_public_key"] = public.text
    try:
        signature = signer.sign(canonical(signed))
    except CanonicalError as error:
        raise DocumentError([str(error)]) from None
    signed["manifest_signature"] = encoding.encode(signature).decode("ascii")
    return signed


# Serving


def build_served_copy(
    document: Mapping[str, Any],
    *,
    status: str | None = None,
    updated_at: str | None = None,
    methods: Iterable[str] = (),
    members: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """
    Return the document as it is served: in core shape, with the present status, and signed only if the signature still
    holds.

    :param document: as received, or as this function returned it.
    :param status: the current lifecycle word; None leaves the document's, in lower case.
    :param updated_at: when ``status`` changed, RFC 3339; left out of account where it is older.
    :param methods: further methods that the agent's host accepts.
    :param members: further members, such as the resolved trust posture.
    """
    served_members = _served_members(document)
    copy = {name: value for name, value in core_shape(document).items() if name in served_members}
    copy.update(members or {})
    copy["status"] = STATUSES[(status or copy["status"]).lower()]
    copy["methods"] = _served_methods(copy["methods"], methods)
    if updated_at is not None and _moment(updated_at) > _moment(copy["updated_at"]):
        copy["updated_at"] = updated_at
    if _without_signature(copy) != _without_signature(document):
        return _without_signature(copy)
    return copy


def _served_methods(stated: list[str], further: Iterable[str]) -> list[str]:
    """Return the methods that the document states, in its order, and then those that it leaves out."""
    return list(dict.fromkeys([*stated, *FLOOR, *further]))
