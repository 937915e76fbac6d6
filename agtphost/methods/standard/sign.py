"""
SIGN: a signature over what the caller sends (methods v01 section 5.8).

Whose: the caller's own key, where this host keeps it, as it does of agents that it hosts; a key of a principal or an
organization that the operator lets this caller use; else the host's attestation that this caller asked for it. No key
signs octets that a caller chose: the payload is a member of a document that says what it is, for whom and when, under a
JWS type that nothing but this signs. So no payload can produce a record, token, card, manifest or checkpoint of the
host.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from zope.interface import implementer

from agtphost.config.signing_keys import SigningKeySection
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.authorization import owner_of
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.identity import jws
from agtphost.identity.agents import Agent
from agtphost.identity.canonical import CanonicalError, canonical
from agtphost.identity.keys import KeyFormatError, SigningKey
from agtphost.identity.peer import Assurance
from agtphost.identity.provisioning import HOSTED
from agtphost.methods.standard.services import MethodServices
from agtphost.vocabulary import jsontext, scopes, times
from agtphost.vocabulary.reasons import Reason

TYPE = "agtp-signed-artifact+jws"
"""The ``typ`` of SIGN's results: nothing else has it, and readers of other types refuse it."""

ALGORITHM = "EdDSA"
MOST = 65_536
"""Octets of a payload that the signed document itself has; of a longer one it has the SHA-256."""

DEEPEST = jsontext.SIGNED_DEPTH - 1
"""The deepest nesting of arrays and objects: verifiers of the document read no more."""

OWN, ATTESTED, ORGANIZATION = "agent", "host", "organization"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """A key that signs for a caller."""

    key: SigningKey
    capacity: str
    name: str
    """In whose name it signs."""

    key_name: str = ""
    """The name of ``[[methods.signing_key]]``; empty for other keys."""


@implementer(IBuiltInHandler)
class Signing:
    """The handler of SIGN."""

    kind = "built_in"
    most_octets = 262_144
    """More numbers take so long to read and to write in their canonical form that other callers feel it."""

    def __init__(self, parts: MethodServices) -> None:
        self._parts = parts

    async def handle(self, context: BuiltInContext) -> Answer:
        """
        Answer the SIGN call.

        :raises Refusal: 403 for a key that is not the caller's, 422, 503 where the host signs nothing.
        """
        caller, given = owner_of(context), context.input
        if given.get("algorithm", ALGORITHM) != ALGORITHM:
            raise parameters.invalid(
                "algorithm", "The keys of this host sign only with EdDSA.", f"Send {ALGORITHM}, or nothing."
            )
        document = await self._parts.offload(self._document, context, caller)
        proven = context.assurance is Assurance.CERTIFICATE
        signer = await self._signer(context, caller, proven, parameters.text(given, "key_id"))
        key = signer.key.snapshot()
        document["signer"] = signer.name
        document["capacity"] = signer.capacity
        if signer.key_name:
            document["attested_by"] = self._parts.server_id
        signed = await self._parts.offload(_sign_document, key, document)
        metadata = {
            "key_id": key.kid,
            "algorithm": ALGORITHM,
            "signer": document["signer"],
            "capacity": signer.capacity,
            **({"key_name": signer.key_name} if signer.key_name else {}),
            "signed_at": document["signed_at"],
            "payload_sha256": document["payload_sha256"],
        }
        return Answer(
            result={"signature": signed, "type": TYPE, **metadata, "public_key": key.public.text},
            extra={"signed": {**metadata, "signature_sha256": sha256(signed.encode("ascii")).hexdigest()}},
        )

    def _document(self, context: BuiltInContext, caller: Agent) -> dict[str, Any]:
        payload = context.input.get("payload")
        if payload is None:
            raise parameters.invalid("payload", "The parameter payload is missing.", "Send payload.", missing=True)
        try:
            octets = canonical(payload)
        except CanonicalError as error:
            raise parameters.invalid(
                "payload", f"payload has no canonical form: {error}.", "Send numbers below 2**53, or as text."
            ) from None
        whole = len(octets) <= MOST and not jsontext.is_deep(payload, DEEPEST)
        return {
            "artifact": TYPE,
            "requested_by": caller.agent_id,
            "assurance": context.assurance.label,
            "acting_principal": context.acting_principal or "",
            "signed_at": times.stamp(self._parts.now()),
            "payload_sha256": sha256(octets).hexdigest(),
            **({"payload": payload} if whole else {"payload_octets": len(octets)}),
        }

    async def _signer(self, context: BuiltInContext, caller: Agent, proven: bool, wanted: str | None) -> Signer:
        """
        Return the key that signs for the caller: the agent's own if the caller proved to be that agent.

        :raises Refusal: 403 ``key-not-own`` for keys that there are not, and for those that others may use, alike.
        """
        if wanted is not None and (named := self._organization(context, caller, proven, wanted)) is not None:
            return named
        own = None
        if caller.hosted and proven:
            own = await self._parts.offload(_own_key, self._parts.config.host.state_dir, caller)
        for key, by, name in ((own, OWN, caller.agent_id), (self._parts.key, ATTESTED, self._parts.server_id)):
            if key is not None and (wanted is None or wanted in (key.kid, key.public.fingerprint)):
                return Signer(key=key, capacity=by, name=name)
        if wanted is not None:
            raise Refusal(
                Reason.KEY_NOT_OWN,
                details={"key_id": wanted[:128]},
            )
        raise Refusal(
            Reason.PROVIDER_MISSING,
            "This host has no signing key.",
            remedy="The operator has to set [audit] signing = true, or list a key in [[methods.signing_key]].",
        )

    def _organization(self, context: BuiltInContext, caller: Agent, proven: bool, wanted: str) -> Signer | None:
        """Return the key of a principal or organization with that name or identifier, if the caller may use it."""
        for section in self._parts.config.methods.signing_key:
            key = self._parts.signing_keys.get(section.name)
            if key is None or wanted not in (section.name, key.kid, key.public.fingerprint):
                continue
            if proven and _may_sign(section, context, caller):
                name = section.signer or section.name
                return Signer(key=key, capacity=ORGANIZATION, name=name, key_name=section.name)
        return None


def _may_sign(section: SigningKeySection, context: BuiltInContext, caller: Agent) -> bool:
    """Return whether the operator lets a caller with a proven identity sign with a key."""
    listed = not section.agents or caller.agent_id in section.agents
    return listed and all(scopes.covers(context.scopes, token) for token in section.scopes)


def _sign_document(key: SigningKey, document: dict[str, Any]) -> str:
    return jws.compact(jws.protected_header(key, TYPE), canonical(document), key)


def _own_key(state_dir: Path, caller: Agent) -> SigningKey | None:
    """Return a hosted agent's private key, if it is on this host and the Genesis names it."""
    path = state_dir / HOSTED / caller.name / "agent.key"
    try:
        key = SigningKey.load(path) if path.is_file() else None
    except (OSError, KeyFormatError):
        return None
    named = None if caller.genesis is None else caller.genesis.agent_key
    if key is None or (named is not None and named.fingerprint != key.public.fingerprint):
        return None
    return key
