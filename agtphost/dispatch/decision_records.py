"""
The signed decision behind an approval: what lets a held call run is a record, and not a row of a table.

The tables in memory are filled from rows that a start compared with what was signed
(:mod:`agtphost.audit.state_keeper`). Grants, pins and revocations are safe by that alone: they are asked for with every
request, which could not wait for a record to be read. An approval is used once, and releases what a person was asked
for: so its use also looks at the record of the CONFIRM that decided, at its signature, and at what it decided on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from twisted.logger import Logger

from agtphost.audit.drafts import StoredRecord
from agtphost.errors import DamagedEvidence, Refusal
from agtphost.identity import envelope
from agtphost.identity.jws import JWSError
from agtphost.identity.keys import VerifyingKey
from agtphost.vocabulary.reasons import Reason

log = Logger()


class DecisionRecords:
    """
    Finds and verifies the records of decisions.

    :param record: reads the record of an Audit-ID; None where there is none.
    :param keys: the host's, present and past; none where it does not sign.
    """

    def __init__(
        self, record: Callable[[str], Awaitable[StoredRecord | None]], keys: Callable[[], Sequence[VerifyingKey]]
    ) -> None:
        self._record = record
        self._keys = keys

    async def require(self, approval_id: str, value: Mapping[str, Any]) -> None:
        """
        Let an approval pass that was decided on as it says.

        :param value: the state item of the approval.
        :raises Refusal: 500 where no record says so.
        """
        decided = str(value["decided_audit_id"])
        try:
            record = await self._record(decided) if decided else None
            why = self._objection(record, approval_id, value)
        except (DamagedEvidence, JWSError, ValueError) as error:
            why = str(error)
        if why:
            log.critical(
                "the approval {approval_id} releases nothing: {why}. Something else than the host may have changed the "
                "store; `agtp audit verify` names what",
                approval_id=approval_id,
                why=why,
            )
            raise Refusal(
                Reason.RECORD_DAMAGED, "The approval of this call has no decision on record; the call was not made."
            )

    def _objection(self, record: StoredRecord | None, approval_id: str, value: Mapping[str, Any]) -> str:
        """Return why a record is not that of the decision; empty where it is."""
        if record is None:
            return f"the store lacks the record {value['decided_audit_id'] or 'of the decision'}"
        keys = {key.kid: key for key in self._keys()}
        said = envelope.verify(record.format, record.signed, keys, allow_unsigned=not keys)
        decision, extra = value["decision"], said.get("extra")
        extra = extra if isinstance(extra, dict) else {}
        named = {
            "id": approval_id,
            "digest": value["digest"],
            "state": "approved",
            "proposed": value["proposed_audit_id"],
        }
        expected = (
            ("the method", said.get("method"), "CONFIRM"),
            ("the status", said.get("status"), 200),
            ("the approval", extra.get("approval"), named),
            ("who decided", extra.get("confirmed_by"), decision["by"]),
            ("the attestation", extra.get("attestation_id"), decision["attestation_id"]),
        )
        wrong = [name for name, found, wanted in expected if found != wanted]
        return f"in the record {record.audit_id} this is another: {', '.join(wrong)}" if wrong else ""
