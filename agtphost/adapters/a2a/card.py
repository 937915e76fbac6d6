"""
Read and check Agent Cards: A2A 1.0 section 8, and the card of 0.3.

A card is the agent's own statement, so it is trusted very little. Its URLs count only within the origin that the
operator configured. Its signature counts only by keys that the operator named, never by one that the card contains. Its
digest is pinned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from agtphost.identity.canonical import canonical
from agtphost.identity.encoding import decode as decode_part
from agtphost.identity.encoding import encode as encode_part
from agtphost.upstream.failures import NotApproved
from agtphost.vocabulary import jsontext

if TYPE_CHECKING:
    from joserfc.jwk import ECKey, OKPKey, RSAKey

CardKey: TypeAlias = "OKPKey | ECKey | RSAKey"
"""A public key that may have signed a card."""

PATH = "/.well-known/agent-card.json"
LONGEST = 256 << 10
"""Octets of a card."""

ALGORITHMS = ["EdDSA", "Ed25519", "ES256", "ES384", "RS256", "PS256"]
"""Signature algorithms that are verified; each key allows its own."""

MOST_SIGNATURES = 8
MOST_SKILLS = 200

JSONRPC = "JSONRPC"
REST = "HTTP+JSON"
_SUPPORTED = ((JSONRPC, "1.0"), (REST, "1.0"), (JSONRPC, "0.3"))


class CardRefused(NotApproved):
    """The error for a card that cannot be used or trusted; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """An address of an agent, with its binding and version."""

    url: str
    binding: str
    """:data:`JSONRPC` or :data:`REST`."""

    version: str
    """``1.0`` or ``0.3``."""

    tenant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A card that passed the checks."""

    document: Mapping[str, Any]
    """The card as received."""

    digest: str
    """SHA-256 of its canonical JSON without signatures, hex."""

    interface: Interface
    """The preferred interface."""

    interfaces: tuple[Interface, ...]
    """Every interface that this host supports, of the configured origin."""

    pinned: bytes
    """That canonical JSON, which an approval covers."""

    trust: str
    """``verified``, ``unverified`` (signed by an unknown key) or ``unsigned``."""

    name: str
    description: str
    skills: tuple[str, ...]
    streaming: bool
    push: bool
    extended: bool


def read(octets: bytes, home: str, keys: Mapping[str, CardKey]) -> Card:
    """
    Parse and check a card.

    :param home: the configured URL; an interface must have the same origin.
    :param keys: the keys that may have signed it; if there are any, one of them must have.
    :raises CardRefused: with the first error found.
    """
    if len(octets) > LONGEST:
        raise CardRefused(f"its card is longer than {LONGEST} octets")
    try:
        document = jsontext.decode(octets, max_depth=jsontext.SIGNED_DEPTH)
    except jsontext.JSONTextError as error:
        raise CardRefused(f"its card is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise CardRefused("its card is not a JSON object")
    capabilities = document.get("capabilities")
    able: Mapping[str, Any] = capabilities if isinstance(capabilities, dict) else {}
    unsigned = {name: value for name, value in document.items() if name != "signatures"}
    pinned = canonical(unsigned)
    return Card(
        document=document,
        digest=sha256(pinned).hexdigest(),
        pinned=pinned,
        interface=_choose(document, home),
        interfaces=tuple(_usable_interfaces(document, home)),
        trust=_trust(document, unsigned, keys),
        name=_text(document, "name", 200),
        description=_text(document, "description", 4000, required=False),
        skills=tuple(_skills(document)),
        streaming=able.get("streaming") is True,
        push=able.get("pushNotifications") is True,
        extended=able.get("extendedAgentCard") is True or document.get("supportsAuthenticatedExtendedCard") is True,
    )


def _text(document: Mapping[str, Any], name: str, most: int, *, required: bool = True) -> str:
    value = document.get(name, "" if not required else None)
    if not isinstance(value, str) or len(value) > most or (required and not value):
        raise CardRefused(f"its card has no proper {name}")
    return value


def _skills(document: Mapping[str, Any]) -> Iterator[str]:
    skills = document.get("skills", [])
    if not isinstance(skills, list) or len(skills) > MOST_SKILLS:
        raise CardRefused("its card has no proper list of skills")
    for skill in skills:
        if not isinstance(skill, dict) or not isinstance(skill.get("id"), str):
            raise CardRefused("a skill of its card has no id")
        yield skill["id"][:128]


# Interfaces


def _choose(document: Mapping[str, Any], home: str) -> Interface:
    """Return the preferred interface: JSON-RPC before HTTP+JSON, 1.0 before 0.3."""
    offered = list(_interfaces(document))
    for binding, version in _SUPPORTED:
        for interface in offered:
            if (interface.binding, interface.version) == (binding, version):
                _require_origin(interface.url, home)
                return interface
    raise CardRefused(
        "its card offers no interface that this host speaks (JSONRPC or HTTP+JSON of 1.0, JSONRPC of 0.3)"
    )


def _usable_interfaces(document: Mapping[str, Any], home: str) -> Iterator[Interface]:
    for interface in _interfaces(document):
        if (interface.binding, interface.version) in _SUPPORTED and _has_origin(interface.url, home):
            yield interface


def _interfaces(document: Mapping[str, Any]) -> Iterator[Interface]:
    listed = document.get("supportedInterfaces")
    if isinstance(listed, list):
        for entry in listed[:16]:
            if isinstance(entry, dict):
                tenant = entry.get("tenant", "")
                yield from _interface(
                    entry.get("url"), entry.get("protocolBinding"), entry.get("protocolVersion", "1.0"), tenant
                )
        return
    # The card of 0.3.
    version = document.get("protocolVersion", "0.3.0")
    yield from _interface(document.get("url"), document.get("preferredTransport", JSONRPC), version)
    more = document.get("additionalInterfaces")
    for entry in more[:16] if isinstance(more, list) else ():
        if isinstance(entry, dict):
            yield from _interface(entry.get("url"), entry.get("transport"), version)


def _interface(url: Any, binding: Any, version: Any, tenant: Any = "") -> Iterator[Interface]:
    if not isinstance(url, str) or not isinstance(version, str) or not isinstance(tenant, str):
        return
    major = ".".join(version.split(".")[:2])
    if binding in (JSONRPC, REST) and major in ("1.0", "0.3"):
        yield Interface(url=url, binding=binding, version=major, tenant=tenant)


def _origin(url: str) -> tuple[str, str, int]:
    """
    Return scheme, lower-case host and port of a URL.

    :raises ValueError: for other than http and https URLs, and for URLs with a user.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise ValueError("no http or https URL")
    return parts.scheme, parts.hostname.lower(), parts.port or (443 if parts.scheme == "https" else 80)


def _has_origin(url: str, home: str) -> bool:
    try:
        plain = url.isascii() and url.isprintable() and not any(sign in url for sign in ' "<>\\^`{|}#')
        return plain and _origin(url) == _origin(home)
    except ValueError:
        return False


def _require_origin(url: str, home: str) -> None:
    if not _has_origin(url, home):
        raise CardRefused("its card sends requests to another origin than the configured one")


# Signatures


def _trust(document: Mapping[str, Any], unsigned: Mapping[str, Any], keys: Mapping[str, CardKey]) -> str:
    signatures = document.get("signatures") or []
    if not isinstance(signatures, list) or len(signatures) > MOST_SIGNATURES:
        raise CardRefused("its card has no proper list of signatures")
    if not keys:
        return "unverified" if signatures else "unsigned"
    # A card is signed in the form that its maker's library has of it. Some libraries leave out what is empty. Cards for
    # readers of 0.3 as well have members that readers of 1.0 neither read nor sign.
    forms = (unsigned, _without_empty(unsigned) or {}, _without_empty(_without_old_members(unsigned)) or {})
    payloads = [encode_part(canonical(form)).decode("ascii") for form in forms]
    for signature in signatures:
        if isinstance(signature, dict) and any(_is_signed(signature, payload, keys) for payload in payloads):
            return "verified"
    raise CardRefused("none of the configured keys signed its card")


def signature_of(document: Mapping[str, Any], keys: Mapping[str, CardKey]) -> str:
    """
    Return what the signatures of a card are worth.

    :return: ``none``, ``unverified`` where no keys are configured, ``verified``, or ``invalid``.
    """
    unsigned = {name: value for name, value in document.items() if name != "signatures"}
    try:
        return "none" if not document.get("signatures") else _trust(document, unsigned, keys)
    except (CardRefused, ValueError):
        return "invalid"


def _is_signed(signature: Mapping[str, Any], payload: str, keys: Mapping[str, CardKey]) -> bool:
    from joserfc import jws
    from joserfc.errors import JoseError

    protected, octets = signature.get("protected"), signature.get("signature")
    if not isinstance(protected, str) or not isinstance(octets, str):
        return False
    try:
        header = jsontext.decode(decode_part(protected))
        key = keys.get(header.get("kid", "")) if isinstance(header, dict) else None
        if key is None or "crit" in header or header.get("b64") is False:
            return False
        jws.deserialize_compact(f"{protected}.{payload}.{octets}", key, algorithms=ALGORITHMS)
    except (JoseError, ValueError, TypeError):
        return False
    return True


_OLD_MEMBERS = frozenset(
    {"url", "preferredTransport", "protocolVersion", "additionalInterfaces", "security"}
    | {"supportsAuthenticatedExtendedCard"}
)
"""Members of a card of 0.3, and of a card of both versions."""


def _without_old_members(card: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a card of 1.0 without the members for readers of 0.3; a card of 0.3 alone is unchanged."""
    if not isinstance(card.get("supportedInterfaces"), list):
        return card
    kept = {name: value for name, value in card.items() if name not in _OLD_MEMBERS}
    schemes = kept.get("securitySchemes")
    if isinstance(schemes, dict):
        kept["securitySchemes"] = {
            name: {kind: inner for kind, inner in scheme.items() if kind.endswith("SecurityScheme")}
            if isinstance(scheme, dict)
            else scheme
            for name, scheme in schemes.items()
        }
    return kept


def _without_empty(value: Any) -> Any:
    """Return a value without empty texts, lists and objects; None where nothing is left."""
    if isinstance(value, dict):
        kept = {name: inner for name, each in value.items() if (inner := _without_empty(each)) is not None}
        return kept or None
    if isinstance(value, list):
        items = [inner for each in value if (inner := _without_empty(each)) is not None]
        return items or None
    return None if value == "" else value
