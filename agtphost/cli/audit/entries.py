"""Verified records from answers of INSPECT."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agtphost.audit.configurations import ADOPTED, REFUSED
from agtphost.audit.drafts import StoredRecord
from agtphost.audit.list_reads import LISTS
from agtphost.audit.summaries import EVENT as SUMMARY
from agtphost.audit.summaries import READS
from agtphost.cli.exchange import ANOTHER_VERSION, require_success, result_of
from agtphost.cli.failures import NoConnection, Unverified
from agtphost.cli.output import visible_line
from agtphost.identity import envelope, jws
from agtphost.identity.key_history import EVENT
from agtphost.identity.key_ring import KeyRing
from agtphost.identity.keys import VerifyingKey
from agtphost.vocabulary.display_names import caller_name, display_name, is_unproven
from agtphost.vocabulary.identifiers import is_audit_id

if TYPE_CHECKING:
    from agtphost.client.sync import Client

HOST = "host"
"""Name of the host's own chain in INSPECT."""

PAGE = 500
"""Records in one query."""

SHORT = 12
"""Digits of an identifier that a table shows."""

_ALTERED = "Do not rely on it: keep it as evidence, and ask the host's operator."


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A record of a chain whose hash and signature are valid."""

    audit_id: str
    seq: int
    kind: str
    payload: Mapping[str, Any]
    form: str
    """``jws`` or ``cose``."""

    signed_text: str
    signed: bool
    """False for a record of a host without a signing key: only its hash was verified."""

    def fields(self) -> dict[str, object]:
        """Return the fields for ``--json``."""
        return {
            "audit_id": self.audit_id,
            "seq": self.seq,
            "kind": self.kind,
            "payload": dict(self.payload),
            **({"caller_proven": not is_unproven(self.payload)} if self.payload.get("caller_id") else {}),
            "format": self.form,
            self.form: self.signed_text,
            "verified": self.signed,
        }

    def row(self, names: Mapping[str, str] | None = None) -> tuple[object, ...]:
        """
        Return the row for a table.

        :param names: labels of agents by Agent-ID.
        """
        payload = self.payload
        what = display_name(payload)
        if what in (SUMMARY, READS, LISTS, ADOPTED, REFUSED):
            what = str(payload.get("explanation"))
        reason = payload.get("reason")
        extra = payload.get("extra")
        lacking = extra.get("scopes") if isinstance(extra, dict) else None
        if reason and isinstance(lacking, list) and lacking:
            reason = f"{reason}: {', '.join(map(str, lacking))}"
        caller = str(payload.get("caller_id", ""))
        return (
            self.seq,
            payload.get("issued_at"),
            payload.get("new_status") or payload.get("status"),
            visible_line(f"{what} ({reason})" if reason else what),
            caller_name(payload, (names or {}).get(caller) or caller[:SHORT]),
            self.audit_id,
        )

    def to_stored_record(self, chain: str) -> StoredRecord:
        """Return the record in the form of a store, for a check of the links of its chain."""
        return StoredRecord(
            chain=chain,
            seq=self.seq,
            audit_id=self.audit_id,
            previous_audit_id=str(self.payload.get("previous_audit_id", "")),
            kind=self.kind,
            format=self.form,
            signed=envelope.from_text(self.form, self.signed_text),
        )


def entry_of(listed: Any, keys: Mapping[str, VerifyingKey]) -> Entry:
    """
    Verify one entry by its signed bytes; the host's other statements about the record are not trusted.

    :raises NoConnection: ``listed`` is not an entry.
    :raises Unverified: the bytes do not match the Audit-ID, or no known key signed them.
    """
    if not isinstance(listed, dict):
        raise NoConnection("the host listed something that is not a record", ANOTHER_VERSION)
    audit_id, seq, form = listed.get("audit_id"), listed.get("seq", 0), listed.get("format", envelope.JWS)
    text = listed.get(form) if isinstance(form, str) else None
    if not (isinstance(audit_id, str) and is_audit_id(audit_id) and isinstance(text, str) and text.isascii()):
        raise NoConnection("the host listed something that is not a record", ANOTHER_VERSION)
    try:
        signed = envelope.from_text(form, text)
        if hashlib.sha256(signed).hexdigest() != audit_id:
            raise Unverified(f"the record {audit_id} does not match its Audit-ID", _ALTERED)
        payload = envelope.verify(form, signed, keys, allow_unsigned=not keys)
        signer = envelope.signer(form, signed)
    except jws.JWSError as error:
        raise Unverified(f"the record {audit_id} does not verify: {error}", _ALTERED) from None
    if isinstance(keys, KeyRing) and _too_late(keys, signer, payload):
        until = keys.until[signer]
        raise Unverified(f"the record {audit_id} does not verify: the key {signer} was retired at {until}")
    return Entry(
        audit_id=audit_id,
        seq=seq if isinstance(seq, int) else 0,
        kind=str(listed.get("kind", "record")),
        payload=payload,
        form=form,
        signed_text=text,
        signed=bool(keys),
    )


def _too_late(keys: KeyRing, signer: str, payload: Mapping[str, Any]) -> bool:
    """Return whether a key signed after its retirement; the record that retires it is exempt."""
    linking = payload.get("event_type") == EVENT and payload.get("rotated_at") == keys.until.get(signer)
    return not linking and keys.has_ended(signer, payload.get("issued_at"))


def pages(
    client: Client, uri: str, chain: str, keys: Mapping[str, VerifyingKey], number: int | None
) -> Iterator[Entry]:
    """
    Yield the entries of a chain, newest first.

    :param chain: an Agent-ID, or :data:`HOST`.
    :param number: how many entries; None for all.
    :raises agtphost.cli.failures.CommandError: the host refuses, or a record does not verify.
    """
    named = {"chain": HOST} if chain == HOST else {"agent_id": chain}
    left = number
    before: int | None = None
    while left is None or left > 0:
        limit = PAGE if left is None else min(PAGE, left)
        asked: dict[str, Any] = {"target": "chain", "limit": limit, **named}
        if before is not None:
            asked["before"] = before
        page = result_of(require_success(client.call(uri, "INSPECT", "/", asked))).get("records")
        if not isinstance(page, list) or not page:
            return
        for listed in page:
            entry = entry_of(listed, keys)
            if entry.seq < 1 or (before is not None and entry.seq >= before):
                raise Unverified(f"the sequence numbers of the chain do not decrease at record {entry.audit_id}")
            before = entry.seq
            yield entry
        if left is not None:
            left -= len(page)
        if before == 1:
            return
