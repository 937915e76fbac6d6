"""
Witnessing the logs of other hosts: ``CONFIRM /checkpoints`` and ``QUERY /checkpoints``.

A host confirms the state of its log (core v08 section 7.2.11: ``target_id``
names the log, ``attestation`` is the checkpoint it signed with the proof that
it continues the last one seen here), and the receipt has this host's
cosignature. CONFIRM and not NOTIFY (section 7.2.13), because a notification
expects no answer and is not idempotent, and both are wanted here. The last
checkpoint of each log is durable before anybody is told of the cosignature.
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
from agtphost.audit.held import HeldTable
from agtphost.audit.merkle import ProofError, proof_from_texts, verify_consistency
from agtphost.audit.remote_witness import INCONSISTENT, OUTDATED
from agtphost.errors import Refusal
from agtphost.handlers.context import EndpointContext, EndpointResponse
from agtphost.iagtp import IHandler
from agtphost.identity.keys import SigningKey, VerifyingKey
from agtphost.methods import parameters
from agtphost.vocabulary.status import Status

WITNESSED = "witnessed-checkpoint"
"""The kind of held item: the last checkpoint of a log."""

CONTRADICTION = "witnessed-contradiction"
"""The kind of held item: two checkpoints of a log of which one does not continue the other."""

MOST_CONTRADICTIONS = 50
"""Kept for one log: the first prove as much as all."""


@dataclass(frozen=True, kw_only=True)
class WitnessedLog:
    """A log that is witnessed here: one ``[[witness.logs]]``."""

    origin: str
    keys: tuple[VerifyingKey, ...]
    """Any of which may sign its checkpoints."""

    clients: frozenset[str] = frozenset()
    """Key fingerprints of the client certificates that may submit; empty where anybody may, by the signature alone."""


@implementer(IHandler)
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
        held: HeldTable,
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

    async def handle(self, context: EndpointContext) -> EndpointResponse:
        return self._last(context) if context.method == "QUERY" else self._confirm(context)

    # QUERY: what was seen

    def _last(self, context: EndpointContext) -> EndpointResponse:
        origin, _ = self._log(context, "origin")
        item = self._held.get(WITNESSED, origin)
        if item is None:
            raise Refusal(
                Status.NOT_FOUND,
                "checkpoint-unseen",
                "No checkpoint of that log was seen here yet.",
                remedy="Confirm one.",
                details={"origin": origin},
            )
        contradictions = [dict(each.value) for each in self._contradictions(origin)]
        return EndpointResponse(result={**item.value, "contradictions": contradictions})

    def _log(self, context: EndpointContext, parameter: str) -> tuple[str, WitnessedLog]:
        origin = parameters.identifier(context.input, parameter)
        log = self._logs.get(origin)
        if log is None:
            raise Refusal(
                Status.NOT_FOUND,
                "log-unknown",
                "The log of that origin is not witnessed here.",
                remedy="Ask the operator to add it to [witness] logs.",
                details={"parameter": parameter},
            )
        return origin, log

    def _contradictions(self, origin: str) -> list[Any]:
        return [item for item in self._held.of(CONTRADICTION) if item.value["origin"] == origin]

    # CONFIRM: the next one

    def _confirm(self, context: EndpointContext) -> EndpointResponse:
        origin, log = self._log(context, "target_id")
        self._authorize(context, log)
        if parameters.choice(context.input, "status", ("accepted", "rejected", "deferred")) != "accepted":
            raise parameters.invalid("status", "A checkpoint can only be confirmed.", "Send accepted.")
        attestation = context.input.get("attestation")
        if not isinstance(attestation, dict):
            raise _missing("attestation", "the checkpoint, the size that the proof begins at, and the proof")
        offered = self._verified(attestation.get("checkpoint"), origin, log)
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
            "seen_at": parameters.stamp(seconds),
        }
        return EndpointResponse(
            result={
                "target_id": origin,
                "attestation_id": f"att-{sha256(line.encode()).hexdigest()[:32]}",
                "timestamp": value["seen_at"],
                "status": "accepted",
                **{name: value[name] for name in ("origin", "size", "cosignature")},
                "witness": checkpoint.key_name(self._server_id),
            },
            changes=(
                Change(kind=WITNESSED, key=origin, value=value, expected=0 if item is None else item.version),
            ),
            extra={"witnessed_log": origin, "witnessed_size": offered.size},
        )

    @staticmethod
    def _authorize(context: EndpointContext, log: WitnessedLog) -> None:
        certificate = context.peer.certificate if context.peer is not None else None
        if log.clients and (certificate is None or certificate.fingerprint not in log.clients):
            raise Refusal(
                Status.UNAUTHORIZED if certificate is None else Status.FORBIDDEN,
                "not-entitled",
                "Checkpoints of that log are taken from certain clients only.",
                remedy="Connect with the client certificate that the log's operator registered.",
            )

    @staticmethod
    def _verified(note: object, origin: str, log: WitnessedLog) -> Checkpoint:
        if not isinstance(note, str):
            raise _missing("attestation.checkpoint", "a signed checkpoint")
        try:
            offered = checkpoint.verify(note, log.keys)
            if offered.origin != origin:
                raise CheckpointError(f"it is one of {offered.origin[:60]}")
        except CheckpointError as error:
            raise Refusal(
                Status.UNPROCESSABLE,
                "checkpoint-unverified",
                f"The checkpoint is not to be believed: {error}.",
                remedy="Send a checkpoint signed by the key that is registered here for the log.",
                details={"parameter": "attestation.checkpoint"},
            ) from None
        # Only what the log itself signed is kept: others' lines would make one checkpoint look like two.
        return checkpoint.verify(checkpoint.signed_by(offered, log.keys), log.keys)

    def _require_continuation(
        self, context: EndpointContext, seen: Checkpoint, offered: Checkpoint, attestation: Mapping[str, Any]
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
            raise Refusal(
                Status.CONFLICT,
                OUTDATED,
                "The proof does not begin at the last checkpoint seen.",
                remedy="Send the consistency proof from size on.",
                details={"size": seen.size},
            )
        try:
            verify_consistency(seen.size, seen.root, offered.size, offered.root, _digests(attestation.get("proof")))
        except ProofError as error:
            raise self._contradiction(
                context, "fork", seen, offered, f"It is not shown to continue the last one seen: {error}."
            ) from None

    def _contradiction(
        self, context: EndpointContext, kind: str, seen: Checkpoint, offered: Checkpoint, explanation: str
    ) -> Refusal:
        """The refusal that keeps both notes, with who brought the second."""
        certificate = context.peer.certificate if context.peer is not None else None
        digest = sha256(f"{seen.note}\n{offered.note}".encode()).hexdigest()
        value = {
            "origin": seen.origin,
            "kind": kind,
            "seen": seen.note,
            "offered": offered.note,
            "offered_by": "" if certificate is None else certificate.fingerprint,
            "offered_at": parameters.stamp(self._now()),
        }
        key = f"{seen.origin}#{digest[:32]}"
        kept = self._held.get(CONTRADICTION, key) is not None
        room = len(self._contradictions(seen.origin)) < MOST_CONTRADICTIONS
        return Refusal(
            Status.CONFLICT,
            INCONSISTENT,
            f"The checkpoint contradicts what this witness has seen. {explanation}",
            remedy="The log's operator has to find out what became of the records; both checkpoints are kept here.",
            details={"origin": seen.origin, "size": seen.size, "kind": kind},
            changes=(Change(kind=CONTRADICTION, key=key, value=value),) if room and not kept else (),
            extra={"witnessed_log": seen.origin, "witnessed_contradiction": digest},
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
