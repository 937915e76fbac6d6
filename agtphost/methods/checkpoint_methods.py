"""
Witnessing the logs of other hosts: ``CONFIRM /checkpoints`` and ``QUERY /checkpoints``.

A host confirms the state of its log (core v08 section 7.2.11: ``target_id``
names the log, ``attestation`` is the checkpoint it signed with the proof that
it continues the last one seen here), and the receipt has this host's
cosignature. A log that changed its key sends the statements that lead from
the registered key to the new one; they are kept, and what only an earlier key
signed is refused from then on. CONFIRM and not NOTIFY (core v08 section 7.2.13), because a notification
expects no answer and is not idempotent, and both are wanted here. The last
checkpoint of each log is durable before the cosignature is sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from zope.interface import implementer

from agtphost.audit import checkpoint, cosignature
from agtphost.audit.checkpoint import Checkpoint, CheckpointError
from agtphost.audit.drafts import Change
from agtphost.audit.merkle import ProofError, proof_from_texts, verify_consistency
from agtphost.audit.state import StateTable
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.identity.key_history import statements_of
from agtphost.identity.key_ring import KeyRing, follow_statements, read_statements
from agtphost.identity.keys import KeyFormatError, SigningKey, VerifyingKey
from agtphost.vocabulary import jsontext, times
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status

WITNESSED = "witnessed-checkpoint"
"""The kind of state item: the last checkpoint of a log."""

KEYS = "witnessed-keys"
"""The kind of state item: the statements by which the keys of a log followed each other."""

RETIRED = "checkpoint-key-retired"
"""The reason of a checkpoint that only an earlier key of its log signed."""

CONTRADICTION = "witnessed-contradiction"
"""The kind of state item: two checkpoints of a log of which one does not continue the other."""

MOST_CONTRADICTIONS = 50
"""Kept for one log: the first prove as much as all."""


@dataclass(frozen=True, kw_only=True)
class WitnessedLog:
    """A log that is witnessed here: one ``[[witness.logs]]``."""

    origin: str
    keys: tuple[VerifyingKey, ...]
    """Any of which may sign its checkpoints, or a key that follows one of them."""

    clients: frozenset[str] = frozenset()
    """Key fingerprints of the client certificates that may submit; empty where anybody may, by the signature alone."""


@implementer(IBuiltInHandler)
class Witnessing:
    """
    Answers CONFIRM and QUERY of ``/checkpoints``.

    :param server_id: the name of this host's key in cosignatures.
    :param key: cosigns.
    :param now: seconds since the Unix epoch.
    """

    kind = "built_in"

    def __init__(
        self,
        held: StateTable,
        logs: Iterable[WitnessedLog],
        server_id: str,
        key: SigningKey,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._held = held
        self._logs = {checkpoint.key_name(log.origin): log for log in logs}
        self._server_id = server_id
        self._key = key
        self._now = now

    async def handle(self, context: BuiltInContext) -> Answer:
        return self._last(context) if context.method == "QUERY" else self._confirm(context)

    # QUERY: what was seen

    def _last(self, context: BuiltInContext) -> Answer:
        origin, _ = self._log(context, "origin")
        item = self._held.get(WITNESSED, origin)
        if item is None:
            raise Refusal(Reason.CHECKPOINT_UNSEEN, details={"origin": origin})
        contradictions = [dict(each.value) for each in self._contradictions(origin)]
        return Answer(result={**item.value, "links": self._kept_links(origin), "contradictions": contradictions})

    def _log(self, context: BuiltInContext, parameter: str) -> tuple[str, WitnessedLog]:
        origin = parameters.identifier(context.input, parameter)
        log = self._logs.get(origin)
        if log is None:
            raise Refusal(Reason.LOG_UNKNOWN, details={"parameter": parameter})
        return origin, log

    def _contradictions(self, origin: str) -> list[Any]:
        return list(self._held.items_by(CONTRADICTION, "origin", origin))

    def _kept_links(self, origin: str) -> list[dict[str, str]]:
        item = self._held.get(KEYS, origin)
        return [] if item is None else [dict(statement) for statement in item.value["links"]]

    # CONFIRM: the next one

    def _confirm(self, context: BuiltInContext) -> Answer:
        origin, log = self._log(context, "target_id")
        self._authorize(context, log)
        if parameters.choice(context.input, "status", ("accepted", "rejected", "deferred")) != "accepted":
            raise parameters.invalid(
                "status", "The only decision about a checkpoint is to confirm it.", "Send accepted."
            )
        attestation = context.input.get("attestation")
        if not isinstance(attestation, dict):
            raise _missing("attestation", "the checkpoint, the size that the proof begins at, and the proof")
        ring = self._follow_keys(context, origin, log, attestation)
        offered = self._verify_note(attestation.get("checkpoint"), origin, ring)
        item = self._held.get(WITNESSED, origin)
        if item is not None:
            self._require_continuation(context, checkpoint.read(item.value["checkpoint"]), offered, attestation)
        seconds = int(self._now())
        line = cosignature.cosign(offered.note, self._server_id, self._key, seconds)
        value = {
            "origin": origin,
            "size": offered.size,
            "checkpoint": offered.note,
            "cosignature": line,
            "seen_at": times.stamp(seconds),
        }
        return Answer(
            result={
                "target_id": origin,
                "attestation_id": f"att-{sha256(line.encode()).hexdigest()[:32]}",
                "timestamp": value["seen_at"],
                "status": "accepted",
                **{name: value[name] for name in ("origin", "size", "cosignature")},
                "witness": checkpoint.key_name(self._server_id),
                **({"links": links} if (links := statements_of(self._key)) else {}),
            },
            changes=(
                Change(kind=WITNESSED, key=origin, value=value, expected=0 if item is None else item.version),
                *self._keeping(origin, ring),
            ),
            extra={"witnessed_log": origin, "witnessed_size": offered.size},
        )

    @staticmethod
    def _authorize(context: BuiltInContext, log: WitnessedLog) -> None:
        certificate = context.peer.certificate if context.peer is not None else None
        if log.clients and (certificate is None or certificate.fingerprint not in log.clients):
            raise Refusal(
                Reason.CERTIFICATE_REQUIRED if certificate is None else Reason.NOT_ENTITLED,
                "This witness accepts checkpoints of that log only from registered clients.",
                status=Status.UNAUTHORIZED if certificate is None else Status.FORBIDDEN,
                remedy="Connect with the client certificate that the log's operator registered.",
            )

    def _follow_keys(
        self, context: BuiltInContext, origin: str, log: WitnessedLog, attestation: Mapping[str, Any]
    ) -> KeyRing:
        """Return the registered keys, their known successors, and the successors that this call proves."""
        ring = follow_statements(log.keys, self._kept_links(origin))
        try:
            links = read_statements(attestation.get("links", []))
            if any(checkpoint.key_name(link.statement["server_id"]) != origin for link in links):
                raise KeyFormatError("one is of another host")
        except KeyFormatError as error:
            raise Refusal(
                Reason.CHECKPOINT_UNVERIFIED,
                f"The statements that link the log's keys cannot be verified: {error}.",
                remedy="Send the statements that both keys of each change signed, the oldest first.",
                details={"parameter": "attestation.links"},
            ) from None
        for link in links:
            known = ring.links.get(link.old.kid)
            if known is not None and known.new != link.new:
                evidence = [jsontext.encode(dict(each.statement)).decode() for each in (known, link)]
                raise self._refuse_contradiction(
                    context, origin, "keys", (evidence[0], evidence[1]), "That key already has a different successor."
                )
            try:
                ring.follow(link)
            except KeyFormatError as error:
                raise parameters.invalid(
                    "attestation.links", f"The keys do not follow each other: {error}.", "Send each link once."
                ) from None
        return ring

    def _keeping(self, origin: str, ring: KeyRing) -> tuple[Change, ...]:
        """Return the change that stores newly learned keys of a log; empty where there are none."""
        item, links = self._held.get(KEYS, origin), [dict(link.statement) for link in ring.links.values()]
        if links == self._kept_links(origin):
            return ()
        value = {"origin": origin, "links": links}
        return (Change(kind=KEYS, key=origin, value=value, expected=0 if item is None else item.version),)

    @staticmethod
    def _verify_note(note: object, origin: str, ring: KeyRing) -> Checkpoint:
        if not isinstance(note, str):
            raise _missing("attestation.checkpoint", "a signed checkpoint")
        try:
            offered, signers = checkpoint.verify_signers(note, ring.values())
            if offered.origin != origin:
                raise CheckpointError(f"it is one of {offered.origin[:60]}")
        except CheckpointError as error:
            raise Refusal(
                Reason.CHECKPOINT_UNVERIFIED,
                f"The checkpoint cannot be verified: {error}.",
                remedy="Send a checkpoint signed by the key that is registered here for the log, or by its successor.",
                details={"parameter": "attestation.checkpoint"},
            ) from None
        if all(key.kid in ring.until for key in signers):
            raise Refusal(Reason.CHECKPOINT_KEY_RETIRED, details={"parameter": "attestation.checkpoint"})
        # Only what the log itself signed is kept: others' lines would make one checkpoint look like two.
        return checkpoint.verify(checkpoint.signed_by(offered, ring.values()), ring.values())

    def _require_continuation(
        self, context: BuiltInContext, seen: Checkpoint, offered: Checkpoint, attestation: Mapping[str, Any]
    ) -> None:
        if offered.size < seen.size:
            raise self._contradiction(context, "rollback", seen, offered, "It is smaller than the last one seen.")
        if offered.size == seen.size:
            if offered.root != seen.root:
                raise self._contradiction(
                    context, "fork", seen, offered, "It has the size of the last one seen, and another root."
                )
            return
        if attestation.get("first") != seen.size:
            raise Refusal(Reason.CHECKPOINT_PROOF_OUTDATED, details={"size": seen.size})
        try:
            verify_consistency(seen.size, seen.root, offered.size, offered.root, _digests(attestation.get("proof")))
        except ProofError as error:
            raise self._contradiction(
                context, "fork", seen, offered, f"The proof does not show that it continues the last one seen: {error}."
            ) from None

    def _contradiction(
        self, context: BuiltInContext, kind: str, seen: Checkpoint, offered: Checkpoint, explanation: str
    ) -> Refusal:
        evidence = seen.note, offered.note
        return self._refuse_contradiction(context, seen.origin, kind, evidence, explanation, size=seen.size)

    def _refuse_contradiction(
        self,
        context: BuiltInContext,
        origin: str,
        kind: str,
        evidence: tuple[str, str],
        explanation: str,
        **details: object,
    ) -> Refusal:
        """Return the refusal that keeps both texts, with the sender of the second."""
        certificate = context.peer.certificate if context.peer is not None else None
        seen, offered = evidence
        digest = sha256(f"{seen}\n{offered}".encode()).hexdigest()
        value = {
            "origin": origin,
            "kind": kind,
            "seen": seen,
            "offered": offered,
            "offered_by": "" if certificate is None else certificate.fingerprint,
            "offered_at": times.stamp(self._now()),
        }
        key = f"{origin}#{digest[:32]}"
        kept = self._held.get(CONTRADICTION, key) is not None
        room = len(self._contradictions(origin)) < MOST_CONTRADICTIONS
        return Refusal(
            Reason.CHECKPOINT_INCONSISTENT,
            f"The checkpoint contradicts an earlier one that this witness has seen. {explanation}",
            details={"origin": origin, "kind": kind, **details},
            changes=(Change(kind=CONTRADICTION, key=key, value=value),) if room and not kept else (),
            extra={"witnessed_log": origin, "witnessed_contradiction": digest},
        )


def _digests(proof: object) -> Sequence[bytes]:
    try:
        return proof_from_texts(proof)
    except ProofError as error:
        raise parameters.invalid(
            "attestation.proof", f"{str(error).capitalize()}.", "Send the consistency proof.", missing=proof is None
        ) from None


def _missing(name: str, what: str) -> Refusal:
    return parameters.invalid(name, f"{name} is missing, or not {what}.", f"Send {what}.", missing=True)
