"""The command ``agtp explain``: explain one record: its evidence, and what the host would decide today."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from agtphost.audit.configurations import ADOPTED, REFUSED
from agtphost.audit.list_reads import LISTS
from agtphost.audit.summaries import EVENT, READS
from agtphost.cli import approval_records, colour
from agtphost.cli.abbreviations import audit_id_of
from agtphost.cli.approval_records import ApprovalRecords, records_of
from agtphost.cli.audit.entries import Entry, entry_of
from agtphost.cli.can import render_decision, render_rule
from agtphost.cli.exchange import inspect, open_client, result_of, signing_keys
from agtphost.cli.identities import labels
from agtphost.cli.options import Connection, host_options
from agtphost.cli.output import print_json, to_text
from agtphost.cli.target import Target, resolve
from agtphost.client.local_identities import REGISTRAR
from agtphost.vocabulary.display_names import caller_name, display_name, outcome_word
from agtphost.vocabulary.identifiers import ZERO_AUDIT_ID
from agtphost.vocabulary.replay import build_decision_query, claimed_of
from agtphost.vocabulary.status import phrase_of

if TYPE_CHECKING:
    from agtphost.client.sync import Client

ASSURANCE_TEXTS = {
    "certificate": "proven by its client certificate",
    "header": "known only by its Agent-ID header",
    "gateway": "proven by a front of the host",
    "none": "not named",
}


EXPLAINED = frozenset(
    {"claimed", "cause", "scopes", "action", "payload_type", "tool", "approval", "input_shape"}
    | {"mcp_server", "mcp_tool", "mcp_resource", "mcp_prompt", "a2a_agent", "a2a_action", "acp_server", "acp_action"}
)
"""Members of a record's ``extra`` that the explanation describes in words."""


@click.command()
@click.argument("audit_id", metavar="AUDIT_ID|APPROVAL")
@host_options
def command(audit_id: str, where: Connection, as_json: bool) -> None:
    """
    Explain a decision about a call.

    Fetches and verifies the record, and shows who called what, how the caller was authenticated, the result, the
    record's place in its chain and in the host's log, and what the host's gates would decide today. For a call that a
    person approved it shows all three records, proposed, decided and executed, if any of them or the approval is named.
    The first digits of an Audit-ID are enough if only one record of the configured host begins with them.

    \b
    Examples:
      agtp explain AUDIT_ID
      agtp explain $(agtp approvals ls --ids --state used | tail -n 1)
    """
    named = audit_id.startswith(approval_records.PREFIX)
    if not named:
        audit_id = audit_id_of(where, audit_id, f"An approval begins with {approval_records.PREFIX}.")
    target = resolve(where, identity=REGISTRAR)
    with open_client(target) as client:
        if named:
            audit_id = approval_records.newest(client, target, audit_id)
        listed = inspect(client, target, {"target": "audit", "audit_id": audit_id})
        keys = signing_keys(target, client)
        entry = entry_of({**listed, "audit_id": audit_id}, keys)
        approval = records_of(client, target, entry, keys)
        proven = client.call(target.uri, "INSPECT", "/", {"target": "inclusion", "audit_id": audit_id})
        today = _today(client, target, entry.payload)
    names = labels(where)
    log = {"index": proven.result["index"], "size": proven.result["size"]} if proven.ok else None
    if as_json:
        approved = {} if approval is None else {"approval": approval.fields()}
        print_json({**entry.fields(), "log": log, "today": today, **approved})
    else:
        colour.tell(render_record(entry, log, today, names, approval))


def _today(client: Client, target: Target, payload: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the gates' decision on the call today; None if the caller may not ask, or the record is not a call."""
    asked = build_decision_query(payload)
    if asked is None:
        return None
    reply = client.call(target.uri, "INSPECT", "/", {"target": "decision", **asked})
    if not reply.ok:
        return None
    return result_of(reply)


def render_record(
    entry: Entry,
    log: Mapping[str, Any] | None,
    today: Mapping[str, Any] | None,
    names: Mapping[str, str] | None = None,
    approval: ApprovalRecords | None = None,
) -> list[str]:
    """
    Return a record as lines for people.

    :param names: labels of agents by Agent-ID.
    :param approval: the records of the approval that it belongs to.
    """
    payload = entry.payload
    names = dict(names or {})
    if today is not None and today.get("agent_name"):
        names.setdefault(str(today.get("agent_id")), str(today["agent_name"]))
    lines = _event(payload, names) if "event_type" in payload else _call(payload, names, (today or {}).get("rule"))
    if approval is not None:
        lines.extend(approval_records.render_records(approval, names))
    lines.append(_proof(entry))
    before = payload.get("previous_audit_id")
    place = f"  chain    record {entry.seq} of {_label_or_id(payload.get('agent_id'), names) or 'the host itself'}"
    lines.append(f"{place}, after {before}" if before != ZERO_AUDIT_ID else f"{place}, the first")
    if log is not None:
        lines.append(f"  log      entry {log['index']} of {log['size']}, proven by the newest checkpoint")
    for name in ("delegation", "prior_actions", "synthesis_id"):
        if payload.get(name):
            lines.append(f"  {name:8} {to_text(payload[name])}")
    extra = payload.get("extra")
    for name, value in extra.items() if isinstance(extra, dict) else ():
        if name not in EXPLAINED:
            lines.append(f"  {name:8} {to_text(value)}")
    if today is not None:
        # The record does not have the scopes that the request claimed.
        lines.append("today, with all scopes that it may claim" if today.get("scopes") else "today")
        lines += [
            f"  {line}" for line in render_decision(_label_or_id(payload.get("caller_id"), names) or "anyone", today)
        ]
    return lines


def _label_or_id(agent_id: object, names: Mapping[str, str]) -> str:
    """Return an agent's label if it is known, or else its Agent-ID."""
    return names.get(str(agent_id)) or str(agent_id or "")


def _caller(payload: Mapping[str, Any], claimed: Mapping[str, Any], names: Mapping[str, str]) -> list[str]:
    """Return lines on who called and how that was authenticated; unverified claims are on separate lines."""
    sureness = ASSURANCE_TEXTS.get(str(payload.get("identity_assurance")), "not known how")
    caller = payload.get("caller_id")
    if isinstance(payload.get("operator"), Mapping) and not caller:
        return []
    if not claimed or caller:
        known = f"{caller}, {sureness}" if names.get(str(caller)) else sureness
        return [f"  caller   {known}"]
    lines = [
        "  caller   not verified"
        if claimed.get("agent_id") or claimed.get("certificate_agent_id")
        else "  caller   named no agent"
    ]
    if claimed.get("agent_id"):
        lines.append(f"  claimed  Agent-ID {claimed['agent_id']}{_label(claimed['agent_id'], names)}")
    if claimed.get("certificate_agent_id"):
        of = claimed["certificate_agent_id"]
        lines.append(f"  showed   the certificate of {of}{_label(of, names)}")
    elif claimed.get("certificate"):
        lines.append(f"  showed   a certificate that names no agent, SHA-256 {claimed['certificate']}")
    return lines


def _operator(payload: Mapping[str, Any]) -> Iterator[str]:
    """Yield the line on the operator who called."""
    operator = payload.get("operator")
    if isinstance(operator, Mapping):
        yield f"  operator {operator.get('name')}, with the key {operator.get('key')}"


def _person(payload: Mapping[str, Any]) -> Iterator[str]:
    """Yield the line on the person on whose behalf the agent called, by a credential that was validated."""
    if payload.get("acting_principal_id"):
        yield f"  person   {to_text(payload['acting_principal_id'])}, on whose behalf it called"


def _label(agent_id: object, names: Mapping[str, str]) -> str:
    label = names.get(str(agent_id))
    return f" ({label})" if label else ""


def _call(payload: Mapping[str, Any], names: Mapping[str, str], rule: object = None) -> list[str]:
    extra = payload.get("extra")
    extra = extra if isinstance(extra, dict) else {}
    who = caller_name(payload, _label_or_id(payload.get("caller_id"), names)) or "an unnamed caller"
    lines = [
        f"{payload.get('issued_at')}: {who} called {display_name(payload)}",
        *_caller(payload, claimed_of(payload), names),
        *_operator(payload),
        *_person(payload),
        f"  answer   {_status(payload.get('status'))}",
    ]
    if payload.get("requested_method"):
        lines.append(f"  alias    {payload['requested_method']} is an alias of {payload.get('method')} here")
    if payload.get("reason"):
        cause = f": {extra['cause']}" if extra.get("cause") else ""
        lines.append(f"  {outcome_word(payload):8} {payload['reason']}{cause}")
        if extra.get("scopes"):
            lines.append(f"  lacked   {to_text(extra['scopes'])}")
        lines.extend(render_rule(rule))
    else:
        lines.append(f"  answered by {_label_or_id(payload.get('agent_id'), names) or 'the host itself'}")
    if isinstance(extra.get("input_shape"), dict):
        lines.append(f"  input    {', '.join(f'{name}: {kind}' for name, kind in extra['input_shape'].items())}")
    if payload.get("action_id"):
        lines.append(f"  action   {payload['action_id']}")
    return lines


def _event(payload: Mapping[str, Any], names: Mapping[str, str]) -> list[str]:
    if payload.get("event_type") in (EVENT, READS):
        return summary_lines(payload)
    if payload.get("event_type") == LISTS:
        return [*_list_lines(payload, names)]
    lines = [
        f"{payload.get('issued_at')}: {payload.get('event_type')} of {_label_or_id(payload.get('agent_id'), names)}"
    ]
    if payload.get("new_status"):
        lines.append(f"  state    {payload.get('previous_status')} -> {payload['new_status']}")
    if payload.get("event_type") in (ADOPTED, REFUSED):
        lines.extend(_configuration(payload))
    if payload.get("event_type") not in (ADOPTED, REFUSED):
        lines.extend(_operator(payload))
    lines.extend(f"  {name:8} {payload[name]}" for name in ("actor", "reason") if payload.get(name))
    return lines


def _configuration(payload: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines on a configuration that was adopted or refused, and who asked for it."""
    yield f"  what     {payload.get('explanation')}"
    key = f", by the key {payload['key']}" if payload.get("key") else ""
    yield f"  asked by {payload.get('asked_by')}{key}"
    yield from _operator(payload)
    yield f"  number   {payload.get('generation')} of its process is in force"
    if payload.get("digest"):
        yield f"  digest   SHA-256 {payload['digest']}"
    for title, name in (("taken", "taken"), ("restart", "waiting"), ("problem", "problems")):
        listed = payload.get(name)
        for each in listed if isinstance(listed, list) else ():
            yield f"  {title:8} {to_text(each)}"


def _list_lines(payload: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[str]:
    """Yield lines on repeated reads of lists: who read, what, how often, and the record of the first read."""
    yield f"{payload.get('issued_at')}: {payload.get('explanation')}"
    who = caller_name(payload, _label_or_id(payload.get("caller_id"), names)) or "an unnamed caller"
    yield f"  caller   {who}, known by {payload.get('identity_assurance')}"
    listed = payload.get("lists")
    for entry in listed if isinstance(listed, list) else []:
        if isinstance(entry, dict):
            what = entry.get("action") or f"{entry.get('method')} {entry.get('path')}"
            yield f"  read     {what}: {entry.get('count')} times, {entry.get('since')} to {entry.get('until')}"
            yield f"  as in    {entry.get('record')}"


def summary_lines(payload: Mapping[str, Any]) -> list[str]:
    """Return lines on counted refusals or reads: how many, their origin, and the claimed identities."""
    origin = payload.get("origin")
    origin = origin if isinstance(origin, dict) else {}
    lines = [
        f"{payload.get('issued_at')}: {payload.get('explanation')}",
        f"  origin   {origin.get('kind')} {origin.get('name')}".rstrip(),
    ]
    for title, name, members in (
        (
            "read" if payload.get("event_type") == READS else "refused",
            "outcomes",
            ("status", "reason", "cause", "method", "path"),
        ),
        ("claimed", "claimed", ("agent_id", "certificate", "certificate_agent_id")),
        ("scopes", "scope_violations", ("method", "path", "scopes")),
        ("from", "addresses", ("address",)),
        ("of", "origins", ("kind", "name")),
    ):
        listed = payload.get(name)
        for entry in listed if isinstance(listed, list) else []:
            if isinstance(entry, dict):
                what = " ".join(to_text(entry[part]) for part in members if part in entry)
                lines.append(f"  {title:8} {what}: {entry.get('count')} times")
        if payload.get(f"further_{name}"):
            lines.append(f"  {title:8} others: {payload[f'further_{name}']} times")
    return lines


def _status(status: object) -> str:
    return f"{status} {phrase_of(status)}" if isinstance(status, int) else str(status)


def _proof(entry: Entry) -> str:
    if entry.signed:
        return "  proof    hash and signature of the record are valid"
    return "  proof    none: the host does not sign its records"
