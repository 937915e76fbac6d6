"""``agtp explain``: one record, told as a story, with what proves it and what would be decided today."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from agtphost.audit.summaries import EVENT as SUMMARY
from agtphost.cli.audit_entries import Entry, entry_of
from agtphost.cli.can import told
from agtphost.cli.exchange import connected, require_success, result_of, signing_keys
from agtphost.cli.failures import NoConnection, WrongInput
from agtphost.cli.identities import REGISTRAR
from agtphost.cli.options import Connection, connection_options, host_option, json_option
from agtphost.cli.output import print_json
from agtphost.cli.reach import Reach, resolve
from agtphost.vocabulary.identifiers import ZERO_AUDIT_ID, is_audit_id
from agtphost.vocabulary.status import phrase_of

if TYPE_CHECKING:
    from agtphost.client.sync import Client

SURENESS = {
    "certificate": "proven by its client certificate",
    "header": "known by its Agent-ID header alone",
    "gateway": "vouched for by the HTTP gateway",
    "none": "not named",
}


@click.command()
@click.argument("audit_id", metavar="AUDIT_ID")
@host_option
@connection_options
@json_option
def command(audit_id: str, uri: str, where: Connection, as_json: bool) -> None:
    """
    Explain why a call was decided as it was.

    Fetches and verifies the record, says who called what, how surely that is
    known and what came of it, where the record stands in its chain and in the
    host's log, and asks the host's gates what they would say today.

    \b
    Example:
      agtp explain AUDIT_ID
    """
    if not is_audit_id(audit_id):
        raise WrongInput("an Audit-ID is 64 lower-case hexadecimal digits")
    reach = resolve(where, uri, identity=REGISTRAR)
    with connected(reach) as client:
        asked = {"target": "audit", "audit_id": audit_id}
        listed = result_of(require_success(client.call(reach.uri, "INSPECT", "/", asked)))
        entry = entry_of({**listed, "audit_id": audit_id}, signing_keys(reach, client))
        proven = client.call(reach.uri, "INSPECT", "/", {"target": "inclusion", "audit_id": audit_id})
        today = _today(client, reach, entry.payload)
    log = {"index": proven.result["index"], "size": proven.result["size"]} if proven.ok else None
    if as_json:
        print_json({**entry.fields(), "log": log, "today": today})
    else:
        click.echo("\n".join(story(entry, log, today)))


def _today(client: Client, reach: Reach, payload: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What the gates would say of the same call; None where nobody may ask, or it was no call."""
    method = payload.get("requested_method") or payload.get("method")
    if not method or "event_type" in payload:
        return None
    asked: dict[str, Any] = {"target": "decision", "method": method, "path": payload.get("path") or "/"}
    if payload.get("caller_id"):
        asked.update(agent_id=payload["caller_id"], assurance=payload.get("identity_assurance"))
    reply = client.call(reach.uri, "INSPECT", "/", asked)
    if not reply.ok:
        return None
    if not isinstance(reply.result, dict):
        raise NoConnection("the answer has no result object", "Is this an AGTP host of the same version?")
    return reply.result


def story(entry: Entry, log: Mapping[str, Any] | None, today: Mapping[str, Any] | None) -> list[str]:
    """The record as lines for people."""
    payload = entry.payload
    lines = _event(payload) if "event_type" in payload else _call(payload)
    lines.append(_proof(entry))
    before = payload.get("previous_audit_id")
    place = f"  chain    record {entry.seq} of {payload.get('agent_id') or 'the host itself'}"
    lines.append(f"{place}, after {before}" if before != ZERO_AUDIT_ID else f"{place}, the first")
    if log is not None:
        lines.append(f"  log      entry {log['index']} of {log['size']}, proven by the newest checkpoint")
    for name in ("delegation", "prior_actions", "synthesis_id", "acting_principal_id", "extra"):
        if payload.get(name):
            lines.append(f"  {name:8} {payload[name]}")
    if today is not None:
        lines.append("today")
        lines += [f"  {line}" for line in told(str(payload.get("caller_id") or "anyone"), today)]
    return lines


def _call(payload: Mapping[str, Any]) -> list[str]:
    caller = payload.get("caller_id") or "somebody"
    what = f"{payload.get('requested_method') or payload.get('method')} {payload.get('path')}"
    lines = [
        f"{payload.get('issued_at')}: {caller} called {what}",
        f"  caller   {SURENESS.get(str(payload.get('identity_assurance')), 'not known how')}",
        f"  answer   {_status(payload.get('status'))}",
    ]
    if payload.get("requested_method"):
        lines.append(f"  alias    {payload['requested_method']} stands for {payload.get('method')} here")
    if payload.get("reason"):
        lines.append(f"  refused  {payload['reason']}")
    else:
        lines.append(f"  answered by {payload.get('agent_id') or 'the host itself'}")
    if payload.get("action_id"):
        lines.append(f"  action   {payload['action_id']}")
    return lines


def _event(payload: Mapping[str, Any]) -> list[str]:
    if payload.get("event_type") == SUMMARY:
        return summary_lines(payload)
    lines = [f"{payload.get('issued_at')}: {payload.get('event_type')} of {payload.get('agent_id')}"]
    if payload.get("new_status"):
        lines.append(f"  state    {payload.get('previous_status')} -> {payload['new_status']}")
    lines.extend(f"  {name:8} {payload[name]}" for name in ("actor", "reason") if payload.get(name))
    return lines


def summary_lines(payload: Mapping[str, Any]) -> list[str]:
    """Refusals that were counted: how many, whose, and who they said they were."""
    origin = payload.get("origin")
    origin = origin if isinstance(origin, dict) else {}
    lines = [
        f"{payload.get('issued_at')}: {payload.get('explanation')}",
        f"  origin   {origin.get('kind')} {origin.get('name')}".rstrip(),
    ]
    for title, name, shown in (
        ("refused", "outcomes", ("status", "reason")),
        ("claimed", "claimed", ("agent_id", "certificate")),
        ("from", "addresses", ("address",)),
        ("of", "origins", ("kind", "name")),
    ):
        listed = payload.get(name)
        for entry in listed if isinstance(listed, list) else []:
            if isinstance(entry, dict):
                what = " ".join(str(entry[part]) for part in shown if part in entry)
                lines.append(f"  {title:8} {what}: {entry.get('count')} times")
        if payload.get(f"further_{name}"):
            lines.append(f"  {title:8} others: {payload[f'further_{name}']} times")
    return lines


def _status(status: object) -> str:
    return f"{status} {phrase_of(status)}" if isinstance(status, int) else str(status)


def _proof(entry: Entry) -> str:
    if entry.signed:
        return "  proof    hash and signature of the record hold"
    return "  proof    none: the host does not sign its records"
