"""The records of an approved call: proposed, decided and executed; each refers to the ones before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agtphost.cli.audit.entries import Entry, entry_of
from agtphost.cli.exchange import result_of
from agtphost.cli.failures import HostRefused, Unverified
from agtphost.client.terminal import escape
from agtphost.vocabulary.display_names import operator_name
from agtphost.vocabulary.identifiers import is_audit_id
from agtphost.vocabulary.status import phrase_of

if TYPE_CHECKING:
    from agtphost.cli.target import Target
    from agtphost.client.sync import Client
    from agtphost.identity.keys import VerifyingKey

PREFIX = "apr-"
"""Prefix of the identifiers of approvals."""

STEPS = ("proposed", "decided", "executed")
"""The steps of an approval, in order."""


@dataclass(frozen=True, kw_only=True)
class ApprovalRecords:
    """The known records of one approval."""

    approval_id: str
    records: Mapping[str, Entry]
    """The records by step: those that exist and that the caller may read."""

    ids: Mapping[str, str]
    """Audit-IDs by step, of all records that exist."""

    listed: Mapping[str, Any]
    """The approval as the host lists it; empty if the host no longer has it, or does not show it to the caller."""

    def fields(self) -> dict[str, object]:
        """Return the fields for ``--json``."""
        steps = {step: {"audit_id": self.ids[step], "read": step in self.records} for step in self.ids}
        return {"approval_id": self.approval_id, **steps, "listed": dict(self.listed)}


def approval_in(entry: Entry) -> Mapping[str, Any]:
    """Return what a record says about an approval; empty if it says nothing."""
    extra = entry.payload.get("extra")
    said = extra.get("approval") if isinstance(extra, dict) else None
    return said if isinstance(said, dict) and isinstance(said.get("id"), str) else {}


def records_of(
    client: Client, target: Target, entry: Entry, keys: Mapping[str, VerifyingKey]
) -> ApprovalRecords | None:
    """
    Return the records of the approval that a record belongs to, or None if the call needed no approval.

    Audit-IDs in a signed record take precedence over those that the host lists now.

    :raises Unverified: a record does not belong to this approval, or does not verify.
    """
    said = approval_in(entry)
    if not said:
        return None
    listed = _find_listed(client, target, said["id"])
    ids = {step: str(listed[f"{step}_audit_id"]) for step in STEPS if listed.get(f"{step}_audit_id")}
    ids.update({step: str(said[step]) for step in STEPS if said.get(step)})
    own = _step_of(entry, said)
    if own is not None:
        ids[own] = entry.audit_id
    found = {} if own is None else {own: entry}
    for step, audit_id in ids.items():
        if step != own and is_audit_id(audit_id):
            other = _fetch_record(client, target, audit_id, keys)
            if other is not None:
                found[step] = _require_step(other, said, step)
    ordered = {step: found[step] for step in STEPS if step in found}
    return ApprovalRecords(
        approval_id=said["id"], records=ordered, ids={step: ids[step] for step in STEPS if step in ids}, listed=listed
    )


def newest(client: Client, target: Target, approval_id: str) -> str:
    """
    Return the Audit-ID of the newest record of an approval.

    :raises HostRefused: the host lists no such approval.
    """
    listed = _find_listed(client, target, approval_id)
    found = [str(listed[f"{step}_audit_id"]) for step in STEPS if listed.get(f"{step}_audit_id")]
    if not found or not is_audit_id(found[-1]):
        raise HostRefused(
            f"the approval {approval_id} does not exist, or this caller may not see it",
            "List them with agtp approvals ls --state all; --as NAME asks as another agent.",
        )
    return found[-1]


def _step_of(entry: Entry, said: Mapping[str, Any]) -> str | None:
    """Return the step that a record is, or None for a step of a recipe that was approved as a whole."""
    if said.get("step") is True:
        return None
    if said.get("decided"):
        return "executed"
    return "decided" if said.get("proposed") else "proposed"


def _find_listed(client: Client, target: Target, approval_id: str) -> Mapping[str, Any]:
    reply = client.call(target.uri, "QUERY", "/approvals", {"id": approval_id})
    entries = result_of(reply).get("approvals") if reply.ok else None
    for each in entries if isinstance(entries, list) else ():
        if isinstance(each, dict) and each.get("approval_id") == approval_id:
            return each
    return {}


def _fetch_record(client: Client, target: Target, audit_id: str, keys: Mapping[str, VerifyingKey]) -> Entry | None:
    reply = client.call(target.uri, "INSPECT", "/", {"target": "audit", "audit_id": audit_id})
    return entry_of({**result_of(reply), "audit_id": audit_id}, keys) if reply.ok else None


def _require_step(entry: Entry, said: Mapping[str, Any], step: str) -> Entry:
    """Return the record if it is that step of this approval; raise :class:`Unverified` otherwise."""
    other = approval_in(entry)
    same = other.get("id") == said["id"] and (not said.get("digest") or other.get("digest") == said["digest"])
    if not same or _step_of(entry, other) != step:
        raise Unverified(f"the record {entry.audit_id} is not the {step} record of {said['id']}")
    return entry


def render_records(found: ApprovalRecords, names: Mapping[str, str]) -> Iterator[str]:
    """
    Yield the three records as lines for people.

    :param names: labels of agents by Agent-ID.
    """
    yield f"  approval {escape(found.approval_id)}"
    for step in STEPS:
        audit_id = found.ids.get(step)
        if audit_id is None:
            if step != "executed" or found.listed.get("state") in ("pending", "approved"):
                yield f"    {step:9} not yet" if found.listed else f"    {step:9} the host no longer lists it"
            continue
        entry = found.records.get(step)
        what = (
            _describe_step(step, entry, found.listed, names) if entry is not None else "a record that you may not read"
        )
        yield f"    {step:9} {what}"
        yield f"              {audit_id}"


def _describe_step(step: str, entry: Entry, listed: Mapping[str, Any], names: Mapping[str, str]) -> str:
    payload = entry.payload
    at = payload.get("issued_at")
    if step == "decided":
        extra = payload.get("extra")
        extra = extra if isinstance(extra, dict) else {}
        by = str(extra.get("confirmed_by", ""))
        why = f": {listed['reason']}" if listed.get("reason") else ""
        who = operator_name(payload) or names.get(by, by)
        return escape(f"{at} {extra.get('confirmed')} by {who}{why}")
    if step == "executed":
        status = payload.get("status")
        return escape(f"{at} {status} {phrase_of(status) if isinstance(status, int) else ''}".rstrip())
    who = str(payload.get("caller_id", ""))
    return escape(f"{at} by {names.get(who, who)}")
