"""
What a URI addresses, and whether it is to be believed: core v08 sections 6.1, 6.2 and 10.2 (level 2).

The procedures are generators that yield what has to be asked and are sent the
replies, so both clients share them and they hold no I/O. :func:`locating`
finds the document; :func:`verifying` puts it to every check as well.

Where an Agent-ID can be reached is a hint and proves nothing: a host that
answers with another agent's document is passed over. A redirect is followed
once, and only within the authority that was asked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from agtphost.client.errors import CannotConnect, ClientError, ConnectionLost, InvalidCall, Timeout, TLSRefused
from agtphost.client.errors import VerificationFailed as Unbelievable
from agtphost.client.manifests import read_manifest
from agtphost.client.reply import Reply
from agtphost.client.requests import parse_uri
from agtphost.client.terminal import escape
from agtphost.client.verification import Check, check_manifest, signing_keys_of
from agtphost.identity import detached, documents, encoding
from agtphost.identity.canonical import CanonicalError, canonical
from agtphost.identity.documents import DocumentError
from agtphost.identity.genesis import Genesis, GenesisError, is_timestamp
from agtphost.identity.jws import JWSError
from agtphost.identity.keys import VerifyingKey
from agtphost.identity.trust import TrustedIssuers
from agtphost.vocabulary import scopes, uris
from agtphost.vocabulary.identifiers import is_agent_id
from agtphost.vocabulary.status import Status
from agtphost.vocabulary.uris import AgtpUri, Form, UriError

FRESHNESS = 300.0
"""Seconds that a Namespace Document may be old (core v08 section 6.2)."""

SKEW = 60.0
"""Seconds that a host's clock may be ahead of this one's."""

IDENTITY_FORMATS = (None, "manifest", "json")
"""Formats that are the Identity Document itself."""


_AGENT_PATH = re.compile(r"/agents/([A-Za-z0-9_-]{1,64})(/status)?", re.ASCII)
_UNREACHABLE = (CannotConnect, TLSRefused, Timeout, ConnectionLost)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request that a procedure needs the answer of."""

    uri: AgtpUri
    method: str = "DESCRIBE"
    anonymous: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """Where a URI led, and what was answered there."""

    uri: AgtpUri
    """The URI that was answered: of the host that knew the agent, after a redirect."""

    reply: Reply
    redirected: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Believing:
    """What a resolution is held against."""

    issuers: TrustedIssuers = field(default_factory=TrustedIssuers)
    """Whose Genesis and documents count, by zone; without any, who signed is said and not judged."""

    keys: Mapping[str, VerifyingKey] = field(default_factory=dict)
    """The host's signing keys, by ``kid``; empty: those that its manifest publishes over TLS."""

    freshness: float = FRESHNESS


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What a URI addresses, and every check that it was put to."""

    uri: AgtpUri
    """As asked."""

    located: AgtpUri
    """Where the answer came from."""

    reply: Reply
    checks: tuple[Check, ...]
    """``resolved``, ``signature``, ``genesis``, ``issuer``, ``scopes`` of an agent; fewer of other things."""

    agent_id: str | None = None
    """The canonical Agent-ID; None for what is no agent. Everything else in a URI is an alias of it."""

    document: Mapping[str, Any] = field(default_factory=dict)
    """The document; the Identity Document where a page or YAML was asked for. Not to be used unless :attr:`ok`."""

    genesis: Genesis | None = None
    scopes: frozenset[str] = frozenset()
    """What the agent accepts, by its document and its Genesis."""

    trusted: bool = False
    """Whether a registrar that the caller trusts issued it: a signature that holds says only who signed."""

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(check.ok for check in self.checks)

    @property
    def failures(self) -> tuple[Check, ...]:
        """The checks that did not pass."""
        return tuple(check for check in self.checks if not check.ok)


Steps = Generator[Ask, Reply, Located]
VerifyingSteps = Generator[Ask, Reply, Resolution]


def question(uri: str | AgtpUri, format: str | None) -> Ask:
    """
    How a URI is asked for: design decision 5.

    :param format: a ``?format=`` value; None leaves it to the URI.
    """
    target = parse_uri(uri)
    if format is not None:
        kept = [part for part in (target.query or "").split("&") if part and not part.startswith("format=")]
        target = replace(target, query="&".join([*kept, f"format={format}"]))
    if target.form in (Form.SERVER, Form.DOMAIN):
        return Ask(uri=target, method="DISCOVER", anonymous=True)
    return Ask(uri=target)


def format_of(uri: AgtpUri) -> str | None:
    """The ``format`` that a URI asks for; None where it leaves it to the host."""
    for part in (uri.query or "").split("&"):
        if part.startswith("format="):
            return part.removeprefix("format=")
    return None


# Finding


def locating(ask: Ask, hosts: Sequence[AgtpUri]) -> Steps:
    """
    Find what a URI addresses.

    :param hosts: where Agent-IDs without a host are asked for, in this order.
    :raises InvalidCall: an Agent-ID alone, and no host is known.
    :raises VerificationFailed: every host that answered did so with another agent's document, or a
        redirect leads where it must not.
    """
    if ask.uri.form is Form.AGENT:
        return (yield from _among(ask, hosts))
    return (yield from _at(ask))


def _among(ask: Ask, hosts: Sequence[AgtpUri]) -> Steps:
    """Form 1: the first host that knows the agent, whatever the others say."""
    if not hosts:
        raise InvalidCall(
            "An Agent-ID alone does not say where its agent can be reached.",
            f"Write agtp://{ask.uri.agent_id}@HOST, or name a resolver.",
        )
    failure: ClientError | None = None
    unknown: Located | None = None
    for host in hosts:
        hinted = replace(ask.uri, form=Form.AGENT_AT_HOST, host=host.host, port=host.port)
        try:
            found = yield from _at(replace(ask, uri=hinted))
        except (*_UNREACHABLE, Unbelievable) as error:
            failure = error if failure is None or isinstance(error, Unbelievable) else failure
            continue
        if found.reply.status != Status.NOT_FOUND:
            return found
        unknown = unknown or found
    # A host that lied is worth more attention than one that did not know.
    if failure is not None and (unknown is None or isinstance(failure, Unbelievable)):
        raise failure
    assert unknown is not None
    return unknown


def _at(ask: Ask) -> Steps:
    """Ask at the place that the URI names, and once more where that redirects to."""
    reply = yield ask
    redirected = False
    if reply.status == Status.MOVED_PERMANENTLY:
        ask = replace(ask, uri=redirected_to(ask.uri, reply.headers.get("location")))
        reply = yield ask
        redirected = True
        if reply.status == Status.MOVED_PERMANENTLY:
            raise Unbelievable("The host redirects a second time.", "Ask its operator for the agent's address.")
    check_agent(ask.uri, reply)
    return Located(uri=ask.uri, reply=reply, redirected=redirected)


def redirected_to(uri: AgtpUri, location: str | None) -> AgtpUri:
    """
    The URI that a 301 means.

    :raises VerificationFailed: if it means none, another agent, or leaves the authority: only the
        same host, or the ``agtp.`` subdomain of the same domain, may be named.
    """
    shown = escape(str(location)[:200])
    if location is None:
        raise Unbelievable("The host redirects and does not say where to.")
    path = _AGENT_PATH.fullmatch(location)
    if path is not None and (uri.agent_id is None or path[1] == uri.agent_id):
        name = None if uri.agent_id is not None else path[1]
        return replace(uri, agent_name=name, status=path[2] is not None)
    try:
        target = uris.parse(location)
    except UriError as error:
        raise Unbelievable(f"The host redirects to {shown}, which is no address: {error.explanation}") from None
    if target.host not in (uri.host, f"agtp.{uri.host}") and uri.host != f"agtp.{target.host}":
        raise Unbelievable(
            f"The host redirects to another authority: {shown}.", "Resolve that URI itself if you trust it."
        )
    if uri.agent_id is not None and target.agent_id != uri.agent_id and target.agent_name != uri.agent_id:
        raise Unbelievable(f"The host redirects to another agent: {shown}.")
    if target.agent_name is not None and is_agent_id(target.agent_name):
        target = replace(target, form=Form.AGENT_AT_HOST, agent_id=target.agent_name, agent_name=None)
    return target if target.query is not None else replace(target, query=uri.query)


def check_agent(uri: AgtpUri, reply: Reply) -> None:
    """
    Refuse a document that is of another agent than the URI names (AGTP-099).

    :raises VerificationFailed: then the document is not to be used.
    """
    if uri.agent_id is None or not reply.ok or format_of(uri) in ("yaml", "html"):
        return
    document = reply.result if isinstance(reply.result, dict) else {}
    named = document.get("agent_id", document.get("canonical_id"))
    if named != uri.agent_id:
        who = f"of {named}" if isinstance(named, str) and is_agent_id(named) else "without an Agent-ID"
        raise Unbelievable(
            f"The host answered {uri.agent_id} with a document {who}.", "Do not use it; ask another host."
        )


# Believing


def verifying(
    ask: Ask,
    hosts: Sequence[AgtpUri],
    believing: Believing,
    locate: Callable[[AgtpUri], AgtpUri],
    now: Callable[[], float],
) -> VerifyingSteps:
    """
    Find what a URI addresses, and put it to every check.

    :param locate: the URI with the host and port that its domain's bootstrap document gave.
    :param now: seconds since the epoch.
    """
    found = yield from locating(ask, hosts)
    if not found.reply.ok:
        said = f"The host answers {found.reply.status}: {escape(found.reply.explanation or found.reply.reason)}"
        return _result(ask, found, [Check(name="resolved", ok=False, detail=said)])
    checks = [Check(name="resolved", ok=True, detail=f"{found.uri} is answered.")]
    place = locate(found.uri)
    server = AgtpUri(form=Form.SERVER, host=place.host, port=place.port)
    if found.uri.form in (Form.SERVER, Form.DOMAIN):
        manifest = read_manifest(found.reply)
        return _result(ask, found, [*checks, check_manifest(manifest, _keys(believing, manifest, now))], manifest)
    keys: Mapping[str, VerifyingKey] = believing.keys
    if not keys:
        manifest_reply = yield Ask(uri=server, method="DISCOVER", anonymous=True)
        keys = {} if not manifest_reply.ok else _keys(believing, read_manifest(manifest_reply), now)
    checks.append(_document_signature(found.reply, keys))
    if found.uri.form is Form.NAMESPACE:
        return (yield from _namespace(ask, found, checks, keys, believing, now))
    form = format_of(found.uri)
    if found.uri.status or form == "status":
        return _result(ask, found, checks, _json(found.reply))
    if form == "certificate":
        return _origin(ask, found, checks, believing)
    if form in IDENTITY_FORMATS:
        return (yield from _identity(ask, found, checks, keys, believing))
    # A page is for people; what is believed, and is in the resolution, is the document that it is made of.
    plain = yield question(found.uri, "json")
    check_agent(replace(found.uri, query=None), plain)
    checks.append(_document_signature(plain, keys))
    shown = yield from _identity(ask, replace(found, reply=plain), checks, keys, believing)
    return replace(shown, reply=found.reply)


def _keys(believing: Believing, manifest: Mapping[str, Any], now: Callable[[], float]) -> Mapping[str, VerifyingKey]:
    """What documents of this moment may be signed with: earlier keys are published for earlier records."""
    if believing.keys:
        return believing.keys
    try:
        published = signing_keys_of(manifest)
    except Unbelievable:
        return {}
    moment = datetime.fromtimestamp(now(), UTC).isoformat()
    return {kid: key for kid, key in published.items() if not published.ended(kid, moment)}


def _json(reply: Reply) -> Mapping[str, Any]:
    result = reply.result
    return result if isinstance(result, dict) else {}


def _result(
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
    """The host's signature over the octets of the body."""
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


def _identity(
    ask: Ask, found: Located, checks: list[Check], keys: Mapping[str, VerifyingKey], believing: Believing
) -> VerifyingSteps:
    document = _json(found.reply)
    signer, inline = _inline_signature(document)
    if inline is not None:
        checks.append(inline)
    genesis, bound = None, None
    try:
        certificate = yield question(replace(found.uri, query=None, status=False), "certificate")
        genesis, bound = _genesis(certificate, document)
    except _UNREACHABLE as error:
        bound = Check(name="genesis", ok=False, detail=f"The Genesis could not be read: {error.explanation}")
    checks.append(bound)
    issuer, trusted = _issuer(genesis, signer, keys, believing.issuers)
    checks.append(issuer)
    allowed, granted = _scopes(document, genesis)
    checks.append(allowed)
    return _result(
        ask, found, checks, document, genesis=genesis, scopes=granted, trusted=trusted and bound.ok and allowed.ok
    )


def _origin(ask: Ask, found: Located, checks: list[Check], believing: Believing) -> Resolution:
    """The Genesis alone: it has to be one, the named agent's, and of a trusted registrar."""
    document = _json(found.reply)
    genesis, bound = _genesis(found.reply, {**document, "agent_id": found.uri.agent_id or document.get("agent_id")})
    issuer, trusted = _issuer(genesis, None, {}, believing.issuers)
    return _result(ask, found, [*checks, bound, issuer], document, genesis=genesis, trusted=trusted and bound.ok)


def _inline_signature(document: Mapping[str, Any]) -> tuple[VerifyingKey | None, Check | None]:
    """The signature inside the document, of the registrar or of the host (core v08 section 6.3.5)."""
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
    """The Agent-ID is the hash of a Genesis (API-044)."""
    if not reply.ok:
        said = f"The host shows no Genesis ({reply.status} {escape(reply.reason)})."
        return None, Check(name="genesis", ok=False, detail=said)
    try:
        genesis = Genesis.load(reply.body)
    except GenesisError as error:
        return None, Check(name="genesis", ok=False, detail=f"The Genesis is not to be believed: {escape(str(error))}.")
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
    """Who issued it is one whom the caller trusts in its zone (AGTP-149)."""
    if genesis is None:
        return Check(name="issuer", ok=False, detail="Without a Genesis nobody is known to have issued it."), False
    by = genesis.issuer_key.kid
    if not issuers:
        return Check(name="issuer", ok=True, detail=f"Issued by {by}; no trusted registrars were named."), False
    zone = genesis.governance_zone
    if not issuers.knows(genesis.issuer_key, zone):
        said = f"untrusted issuer: {by} is no trusted registrar of {escape(zone or 'any zone')}."
        return Check(name="issuer", ok=False, detail=said), False
    if signer is not None and signer not in keys.values() and not issuers.knows(signer, zone):
        return Check(name="issuer", ok=False, detail=f"untrusted issuer: {signer.kid} signed the document."), False
    return Check(name="issuer", ok=True, detail=f"Issued by the trusted registrar {by}."), True


def _scopes(document: Mapping[str, Any], genesis: Genesis | None) -> tuple[Check, frozenset[str]]:
    """The scopes that the document declares lie within those of the Genesis."""
    if documents.faults_of(document):
        return Check(name="scopes", ok=False, detail="The document declares no scopes that could be read."), frozenset()
    declared = documents.declared_scopes(document)
    beyond = scopes.missing(genesis.scopes, sorted(declared)) if genesis is not None and genesis.scopes else ()
    if beyond:
        said = f"The document declares {', '.join(beyond[:8])} beyond its Genesis."
        return Check(name="scopes", ok=False, detail=said), declared - frozenset(beyond)
    return Check(name="scopes", ok=True, detail=", ".join(sorted(declared)) or "None."), declared


# Namespace


def _namespace(
    ask: Ask,
    found: Located,
    checks: list[Check],
    keys: Mapping[str, VerifyingKey],
    believing: Believing,
    now: Callable[[], float],
) -> VerifyingSteps:
    document = _json(found.reply)
    fresh = check_fresh(document, now(), believing.freshness)
    if not fresh.ok:
        # An old document may hide a revocation: asked for again, once (AGTP-135).
        reply = yield Ask(uri=found.uri)
        found = replace(found, reply=reply)
        document = _json(reply)
        fresh = check_fresh(document, now(), believing.freshness)
        checks[-1] = _document_signature(reply, keys)
    checks.extend((check_namespace(document, keys), fresh))
    return _result(ask, found, checks, document)


def check_namespace(document: Mapping[str, Any], keys: Mapping[str, VerifyingKey]) -> Check:
    """Whether a Namespace Document is signed, all of it, by one of ``keys`` (AGTP-134)."""
    signature = document.get("signature")
    unsigned = {name: value for name, value in document.items() if name != "signature"}
    if document.get("document_type") != "agtp-namespace":
        return Check(name="namespace", ok=False, detail="It is no Namespace Document.")
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
    """Whether a Namespace Document is of this moment (AGTP-135)."""
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
