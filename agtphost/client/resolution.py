"""
Check what a URI addresses: core v08 sections 6.2 and 10.2 (level 2).

Without I/O: see :mod:`.location`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from agtphost.client.errors import VerificationFailed
from agtphost.client.location import UNREACHABLE, Answer, Ask, Located, check_agent, format_of, locating, question
from agtphost.client.manifests import not_whole, read_manifest
from agtphost.client.reply import Reply
from agtphost.client.terminal import escape
from agtphost.client.verification import Check, Verification, check_manifest, signing_keys_of
from agtphost.contract.manifest_parts import PartError, PartReader
from agtphost.identity import detached, documents, encoding
from agtphost.identity.canonical import CanonicalError, canonical
from agtphost.identity.documents import DocumentError
from agtphost.identity.genesis import Genesis, GenesisError, is_timestamp
from agtphost.identity.jws import JWSError
from agtphost.identity.keys import VerifyingKey
from agtphost.identity.scope_statement import HEADER, StatementError, read_statement
from agtphost.identity.trust import TrustedIssuers
from agtphost.vocabulary import scopes
from agtphost.vocabulary.identifiers import is_agent_id
from agtphost.vocabulary.uris import AgtpUri, Form

FRESHNESS = 300.0
"""Seconds that a Namespace Document may be old (core v08 section 6.2)."""

SKEW = 60.0
"""Seconds that a host's clock may be ahead of this one's."""

IDENTITY_FORMATS = (None, "manifest", "json")
"""Formats that are the Identity Document itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustPolicy:
    """The rules by which a resolution is checked."""

    issuers: TrustedIssuers = field(default_factory=TrustedIssuers)
    """Whose Genesis and documents count, by zone; without any, signers are reported but not judged."""

    keys: Mapping[str, VerifyingKey] = field(default_factory=dict)
    """The host's signing keys, by ``kid``; empty: those that its manifest publishes over TLS."""

    freshness: float = FRESHNESS


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution(Verification):
    """The result of resolving a URI, with every check."""

    uri: AgtpUri
    """As asked."""

    located: AgtpUri
    """Where the answer came from."""

    reply: Reply
    checks: tuple[Check, ...]
    """``resolved``, ``signature``, ``genesis``, ``issuer``, ``scopes`` of an agent; fewer of other things."""

    agent_id: str | None = None
    """The canonical Agent-ID; None for other things than agents. Everything else in a URI is an alias of it."""

    document: Mapping[str, Any] = field(default_factory=dict)
    """The document; the Identity Document where a page or YAML was asked for. Not to be used unless :attr:`ok`."""

    parts: int = 1
    """Signed documents that it came in: more than one of a manifest with thousands of endpoints."""

    genesis: Genesis | None = None
    scopes: frozenset[str] = frozenset()
    """What the agent accepts, by its document and its Genesis."""

    trusted: bool = False
    """Whether a registrar that the caller trusts issued it: a signature that holds says only who signed."""


async def verifying(
    answer: Answer,
    ask: Ask,
    hosts: Sequence[AgtpUri],
    policy: TrustPolicy,
    locate: Callable[[AgtpUri], AgtpUri],
    now: Callable[[], float],
) -> Resolution:
    """
    Find what a URI addresses, and put it to every check.

    :param answer: makes the requests.
    :param locate: the URI with the host and port that its domain's bootstrap document gave.
    :param now: seconds since the epoch.
    """
    found = await locating(answer, ask, hosts)
    if not found.reply.ok:
        said = f"The host answers {found.reply.status}: {escape(found.reply.explanation or found.reply.reason)}"
        return _make_resolution(ask, found, [Check(name="resolved", ok=False, detail=said)])
    checks = [Check(name="resolved", ok=True, detail=f"{found.uri} is answered.")]
    place = locate(found.uri)
    server = AgtpUri(form=Form.SERVER, host=place.host, port=place.port)
    if found.uri.form in (Form.SERVER, Form.DOMAIN):
        return await _manifest(answer, ask, found, checks, server, policy, now)
    keys: Mapping[str, VerifyingKey] = policy.keys
    if not keys:
        manifest_reply = await answer(Ask(uri=server, method="DISCOVER", anonymous=True))
        keys = {} if not manifest_reply.ok else _keys(policy, read_manifest(manifest_reply), now)
    checks.append(_document_signature(found.reply, keys))
    if found.uri.form is Form.NAMESPACE:
        return await _namespace(answer, ask, found, checks, keys, policy, now)
    form = format_of(found.uri)
    if found.uri.status or form == "status":
        return _make_resolution(ask, found, checks, _json(found.reply))
    if form == "certificate":
        return _origin(ask, found, checks, policy)
    if form in IDENTITY_FORMATS:
        return await _identity(answer, ask, found, checks, keys, policy)
    # A page is for people; what is believed, and is in the resolution, is the document that it is made of.
    plain = await answer(question(found.uri, "json"))
    check_agent(replace(found.uri, query=None), plain)
    checks.append(_document_signature(plain, keys))
    shown = await _identity(answer, ask, replace(found, reply=plain), checks, keys, policy)
    return replace(shown, reply=found.reply)


async def _manifest(
    answer: Answer,
    ask: Ask,
    found: Located,
    checks: Sequence[Check],
    server: AgtpUri,
    policy: TrustPolicy,
    now: Callable[[], float],
) -> Resolution:
    """Read every part of a manifest; each is signed for itself, and one that fails counts for all."""
    first = read_manifest(found.reply)
    keys = _keys(policy, first, now)
    parts, check, count = PartReader(), None, 1
    document, octets = first, len(found.reply.body)
    try:
        while True:
            token = parts.add(document, octets)
            # One at a time: together they take twice the room of all endpoints.
            signed = check_manifest(parts.with_encoded_endpoints(document), keys)
            check = signed if check is None or (check.ok and not signed.ok) else check
            if token is None:
                break
            reply = await answer(Ask(uri=server, method="DISCOVER", anonymous=True, part=token))
            if not reply.ok:
                said = f"Part {count + 1} of the manifest is answered {reply.status}: {escape(reply.reason)}"
                return _make_resolution(ask, found, [*checks, Check(name="manifest", ok=False, detail=said)])
            document, octets, count = read_manifest(reply), len(reply.body), count + 1
        whole = parts.to_manifest()
    except PartError as error:
        raise not_whole(error) from None
    return _make_resolution(ask, found, [*checks, check], whole, parts=count)


def _keys(policy: TrustPolicy, manifest: Mapping[str, Any], now: Callable[[], float]) -> Mapping[str, VerifyingKey]:
    """
    Return the keys that documents of this moment may be signed with: earlier keys are published for earlier records.
    """
    if policy.keys:
        return policy.keys
    try:
        published = signing_keys_of(manifest)
    except VerificationFailed:
        return {}
    moment = datetime.fromtimestamp(now(), UTC).isoformat()
    return {kid: key for kid, key in published.items() if not published.has_ended(kid, moment)}


def _json(reply: Reply) -> Mapping[str, Any]:
    result = reply.result
    return result if isinstance(result, dict) else {}


def _make_resolution(
    ask: Ask, found: Located, checks: Sequence[Check], document: Mapping[str, Any] | None = None, **more: Any
) -> Resolution:
    document = document or {}
    named = document.get("agent_id", document.get("canonical_id"))
    return Resolution(
        uri=ask.uri,
        located=found.uri,
        reply=found.reply,
        checks=tuple(checks),
        agent_id=named if isinstance(named, str) and is_agent_id(named) else found.uri.agent_id,
        document=document,
        **more,
    )


def _document_signature(reply: Reply, keys: Mapping[str, VerifyingKey]) -> Check:
    """Check the host's signature over the octets of the body."""
    text = reply.headers.get(detached.HEADER.lower())
    if text is None:
        return Check(name="signature", ok=False, detail="The document is not signed by its host.")
    try:
        kid = detached.verify(text, reply.body, keys)
    except JWSError as error:
        why = f"The document's signature fails: {escape(str(error))}."
        return Check(name="signature", ok=False, detail=why)
    return Check(name="signature", ok=True, detail=f"Signed by {escape(kid[:80])}.")


# Identity


async def _identity(
    answer: Answer, ask: Ask, found: Located, checks: list[Check], keys: Mapping[str, VerifyingKey], policy: TrustPolicy
) -> Resolution:
    document = _json(found.reply)
    signer, inline = _inline_signature(document)
    if inline is not None:
        checks.append(inline)
    genesis, bound, statement = None, None, ""
    try:
        certificate = await answer(question(replace(found.uri, query=None, status=False), "certificate"))
        genesis, bound = _genesis(certificate, document)
        statement = certificate.headers.get(HEADER.lower()) or ""
    except UNREACHABLE as error:
        bound = Check(name="genesis", ok=False, detail=f"The Genesis could not be read: {error.explanation}")
    checks.append(bound)
    issuer, trusted = _issuer(genesis, signer, keys, policy.issuers)
    checks.append(issuer)
    allowed, granted = _scopes(document, genesis, statement)
    checks.append(allowed)
    return _make_resolution(
        ask, found, checks, document, genesis=genesis, scopes=granted, trusted=trusted and bound.ok and allowed.ok
    )


def _origin(ask: Ask, found: Located, checks: list[Check], policy: TrustPolicy) -> Resolution:
    """Check a Genesis alone: it has to be one, the named agent's, and of a trusted registrar."""
    document = _json(found.reply)
    genesis, bound = _genesis(found.reply, {**document, "agent_id": found.uri.agent_id or document.get("agent_id")})
    issuer, trusted = _issuer(genesis, None, {}, policy.issuers)
    return _make_resolution(
        ask, found, [*checks, bound, issuer], document, genesis=genesis, trusted=trusted and bound.ok
    )


def _inline_signature(document: Mapping[str, Any]) -> tuple[VerifyingKey | None, Check | None]:
    """Check the signature inside the document, of the registrar or of the host (core v08 section 6.3.5)."""
    faults = documents.faults_of(document)
    if faults:
        return None, Check(name="document", ok=False, detail=f"The document is wrong: {escape(faults[0])}.")
    try:
        signer = documents.check_signature(document)
    except DocumentError as error:
        return None, Check(name="document", ok=False, detail=f"The signature inside it fails: {escape(str(error))}.")
    if signer is None:
        return None, Check(name="document", ok=True, detail="The document has its required members.")
    by = escape(str(document["manifest_issuer"])[:80])
    return signer, Check(name="document", ok=True, detail=f"Signed inside by {by}, {signer.kid}.")


def _genesis(reply: Reply, document: Mapping[str, Any]) -> tuple[Genesis | None, Check]:
    """Check that the Agent-ID is the hash of a Genesis (API-044)."""
    if not reply.ok:
        said = f"The host shows no Genesis ({reply.status} {escape(reply.reason)})."
        return None, Check(name="genesis", ok=False, detail=said)
    try:
        genesis = Genesis.load(reply.body)
    except GenesisError as error:
        return None, Check(name="genesis", ok=False, detail=f"The Genesis does not verify: {escape(str(error))}.")
    if genesis.agent_id != document.get("agent_id"):
        said = f"id mismatch: the Genesis is that of {genesis.agent_id}."
        return None, Check(name="genesis", ok=False, detail=said)
    return genesis, Check(name="genesis", ok=True, detail="The Agent-ID is the hash of its Genesis.")


def _issuer(
    genesis: Genesis | None,
    signer: VerifyingKey | None,
    keys: Mapping[str, VerifyingKey],
    issuers: TrustedIssuers,
) -> tuple[Check, bool]:
    """Check that the issuer is one whom the caller trusts in its zone (AGTP-149)."""
    if genesis is None:
        return Check(name="issuer", ok=False, detail="Without a Genesis its issuer is unknown."), False
    by = genesis.issuer_key.kid
    if not issuers:
        return Check(name="issuer", ok=True, detail=f"Issued by {by}; no trusted registrars were named."), False
    zone = genesis.governance_zone
    if not issuers.knows(genesis.issuer_key, zone):
        said = f"untrusted issuer: {by} is not a trusted registrar of {escape(zone or 'any zone')}."
        return Check(name="issuer", ok=False, detail=said), False
    if signer is not None and signer not in keys.values() and not issuers.knows(signer, zone):
        return Check(name="issuer", ok=False, detail=f"untrusted issuer: {signer.kid} signed the document."), False
    return Check(name="issuer", ok=True, detail=f"Issued by the trusted registrar {by}."), True


def _scopes(document: Mapping[str, Any], genesis: Genesis | None, statement: str) -> tuple[Check, frozenset[str]]:
    """
    Check that the declared scopes lie within those of the Genesis, or of its issuer's statement.

    :param statement: as the host has it; empty for none.
    """
    if documents.faults_of(document):
        return Check(name="scopes", ok=False, detail="The document declares no scopes that could be read."), frozenset()
    declared = documents.declared_scopes(document)
    if genesis is not None and statement:
        return _stated_scopes(declared, genesis, statement)
    beyond = scopes.missing(genesis.scopes, sorted(declared)) if genesis is not None and genesis.scopes else ()
    if beyond:
        said = f"The document declares {', '.join(beyond[:8])} beyond its Genesis."
        return Check(name="scopes", ok=False, detail=said), declared - frozenset(beyond)
    return Check(name="scopes", ok=True, detail=", ".join(sorted(declared)) or "None."), declared


def _stated_scopes(declared: frozenset[str], genesis: Genesis, text: str) -> tuple[Check, frozenset[str]]:
    """Check that the issuer of the Genesis has stated the declared scopes."""
    try:
        statement = read_statement(text, genesis)
    except StatementError as error:
        said = f"The statement of scopes does not verify: {escape(str(error))}."
        return Check(name="scopes", ok=False, detail=said), scopes.intersect(declared, genesis.scopes)
    beyond = scopes.missing(statement.scopes, sorted(declared))
    if beyond:
        said = f"The document declares {', '.join(beyond[:8])} beyond statement {statement.number} of its issuer."
        return Check(name="scopes", ok=False, detail=said), declared - frozenset(beyond)
    listed = ", ".join(sorted(declared)) or "None"
    said = f"{listed}; by statement {statement.number} of the Genesis's issuer, of {statement.issued_at}."
    return Check(name="scopes", ok=True, detail=said), declared


# Namespace


async def _namespace(
    answer: Answer,
    ask: Ask,
    found: Located,
    checks: list[Check],
    keys: Mapping[str, VerifyingKey],
    policy: TrustPolicy,
    now: Callable[[], float],
) -> Resolution:
    document = _json(found.reply)
    fresh = check_fresh(document, now(), policy.freshness)
    if not fresh.ok:
        # An old document may hide a revocation: asked for again, once (AGTP-135).
        reply = await answer(Ask(uri=found.uri))
        found = replace(found, reply=reply)
        document = _json(reply)
        fresh = check_fresh(document, now(), policy.freshness)
        checks[-1] = _document_signature(reply, keys)
    checks.extend((check_namespace(document, keys), fresh))
    return _make_resolution(ask, found, checks, document)


def check_namespace(document: Mapping[str, Any], keys: Mapping[str, VerifyingKey]) -> Check:
    """Return whether a Namespace Document is signed, all of it, by one of ``keys`` (AGTP-134)."""
    signature = document.get("signature")
    unsigned = {name: value for name, value in document.items() if name != "signature"}
    if document.get("document_type") != "agtp-namespace":
        return Check(name="namespace", ok=False, detail="It is not a Namespace Document.")
    if not isinstance(signature, dict) or signature.get("algorithm") != "EdDSA":
        return Check(name="namespace", ok=False, detail="The Namespace Document is not signed with EdDSA.")
    kid, value = signature.get("key_id"), signature.get("value")
    key = keys.get(kid) if isinstance(kid, str) else None
    if key is None or not isinstance(value, str):
        return Check(name="namespace", ok=False, detail="The Namespace Document is signed with an unknown key.")
    try:
        good = key.verify(encoding.decode_padded(value), canonical(unsigned))
    except (CanonicalError, ValueError):
        good = False
    if not good:
        return Check(name="namespace", ok=False, detail="The Namespace Document's signature does not match it.")
    return Check(name="namespace", ok=True, detail=f"The Namespace Document is signed by {key.kid}.")


def check_fresh(document: Mapping[str, Any], now: float, freshness: float) -> Check:
    """Return whether a Namespace Document is of this moment (AGTP-135)."""
    made = document.get("generated_at")
    if not isinstance(made, str) or not is_timestamp(made):
        return Check(name="freshness", ok=False, detail="The document does not say when it was generated.")
    age = now - datetime.fromisoformat(made).timestamp()
    if age > freshness:
        said = f"The document is {age:.0f} seconds old, and more than {freshness:g} are not accepted."
        return Check(name="freshness", ok=False, detail=said)
    if age < -SKEW:
        return Check(name="freshness", ok=False, detail=f"The document is {-age:.0f} seconds ahead of this clock.")
    return Check(name="freshness", ok=True, detail=f"Generated {max(age, 0):.0f} seconds ago.")
