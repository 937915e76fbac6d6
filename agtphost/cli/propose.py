"""The command ``agtp propose``: ask a host for an endpoint that it does not have (AGTP-API section 10)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from agtphost.cli.exchange import open_client, refusal
from agtphost.cli.failures import ExitStatus, HostRefused, WrongInput
from agtphost.cli.local_files import read_octets
from agtphost.cli.options import Connection, host_options
from agtphost.cli.output import print_json, print_note, print_summary
from agtphost.cli.target import resolve
from agtphost.vocabulary import jsontext

if TYPE_CHECKING:
    from agtphost.client.reply import Reply
    from agtphost.client.sync import Client

MOST_TURNS = 3
"""Rejections after which an agent escalates instead of proposing again (core v08 section 7.5)."""

HEADER = "Negotiation-ID"


@dataclass
class Negotiation:
    """A negotiation with a host, in turns."""

    client: Client
    uri: str
    negotiation_id: str | None = None
    turns: list[dict[str, Any]] = field(default_factory=list)

    def propose(self, definition: Mapping[str, Any], beside: Mapping[str, Any]) -> Reply:
        """Make the next turn, in the wrapped form of AGTP-API section 10.4.1."""
        headers = [] if self.negotiation_id is None else [(HEADER, self.negotiation_id)]
        reply = self.client.call(self.uri, "PROPOSE", "/", {"endpoint": dict(definition), **beside}, headers=headers)
        self.negotiation_id = reply.headers.get(HEADER.lower()) or self.negotiation_id
        self.turns.append({"status": reply.status, "reason": reply.reason, "explanation": reply.explanation})
        return reply

    def outcome(self, reply: Reply, seconds: float) -> Reply:
        """Return the decision about a proposal under review, asking for it until it is made or the time is over."""
        end = time.monotonic() + seconds
        where = f"/proposals/{reply.document.get('proposal_id', '')}"
        while reply.status == 261 and time.monotonic() < end:
            time.sleep(min(2.0, max(0.1, end - time.monotonic())))
            reply = self.client.call(self.uri, "QUERY", where)
        return reply

    def escalate(self) -> Reply:
        """Escalate after the last rejection."""
        given = {
            "task_id": self.negotiation_id,
            "reason": "resource_unavailable",
            "context": {"negotiation_id": self.negotiation_id, "turns": self.turns},
        }
        return self.client.call(self.uri, "ESCALATE", "/", given)


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--duration", metavar="TIME", help="How long the contract lasts: 24h, 7d, PT30M; default: this session.")
@click.option("--persistent", is_flag=True, help="Ask for an endpoint of the host's regular catalog.")
@click.option(
    "--data-class",
    "data_classes",
    multiple=True,
    metavar="NAME",
    help="Class of the data that the endpoint handles; may be repeated.",
)
@click.option(
    "--wait",
    type=click.FloatRange(0, 86_400),
    default=0.0,
    metavar="SECONDS",
    help="How long to wait for an operator's decision.",
)
@host_options
def command(
    files: tuple[str, ...],
    duration: str | None,
    persistent: bool,
    data_classes: tuple[str, ...],
    wait: float,
    where: Connection,
    as_json: bool,
) -> None:
    """
    Propose an endpoint to a host, and show the resulting contract.

    FILE has an endpoint definition as JSON: method, path, semantic, and usually input_schema and output_schema. Several
    files are the turns of one negotiation: each is proposed if the previous one was rejected. After three rejections
    the command sends ESCALATE.

    \b
    Examples:
      agtp propose room.json --as buyer
      agtp propose room.json simpler-room.json --as buyer --duration 24h
      agtp propose room.json --as buyer --wait 600 --json
    """
    definitions = [_definition(name) for name in files]
    beside: dict[str, Any] = {}
    if duration is not None:
        beside["requested_duration"] = duration
    if persistent:
        beside["persistent"] = True
    if data_classes:
        beside["data_class"] = list(data_classes)
    target = resolve(where)
    with open_client(target) as client:
        negotiation = Negotiation(client, target.uri)
        reply = _turns(negotiation, definitions, beside, wait)
        rejections = sum(1 for turn in negotiation.turns if turn["status"] == 463)
        escalation = negotiation.escalate() if rejections >= MOST_TURNS else None
    _show(reply, negotiation, escalation, as_json)


def _turns(
    negotiation: Negotiation, definitions: list[Mapping[str, Any]], beside: Mapping[str, Any], wait: float
) -> Reply:
    first, *further = definitions[:MOST_TURNS]
    reply = negotiation.outcome(negotiation.propose(first, beside), wait)
    for definition in further:
        if reply.status != 463:
            break
        reply = negotiation.outcome(negotiation.propose(definition, beside), wait)
    return reply


def _show(reply: Reply, negotiation: Negotiation, escalation: Reply | None, as_json: bool) -> None:
    if reply.status in (261, 263):
        answer = dict(reply.document)
        if as_json:
            print_json({**answer, "turns": negotiation.turns})
            return
        hidden = ("endpoint", "attribution", "composed_of", "poll", "recipe_lineage", "proposed")
        print_summary({name: value for name, value in answer.items() if name not in hidden})
        if reply.status == 263:
            print_note(f"call it with -H Contract-Synthesized:{answer.get('synthesis_id')}")
        return
    answer = {"status": reply.status, **reply.document, "turns": negotiation.turns, "audit_id": reply.audit_id}
    if escalation is not None:
        answer["escalation"] = {"status": escalation.status, **escalation.document}
    if as_json:
        print_json(answer)
        raise click.exceptions.Exit(int(ExitStatus.REFUSED))
    if escalation is not None:
        said = f"three proposals were rejected, the last one: {reply.explanation} [{reply.reason}]"
        raise HostRefused(said, f"The negotiation was escalated: {escalation.status} {escalation.text}.")
    raise refusal(reply)


def _definition(name: str) -> Mapping[str, Any]:
    try:
        value = jsontext.decode(read_octets(name))
    except jsontext.JSONTextError as error:
        raise WrongInput(f"{name} is not JSON: {error}") from None
    if isinstance(value, dict) and isinstance(value.get("endpoint"), dict):
        value = value["endpoint"]
    if not isinstance(value, dict):
        raise WrongInput(f"{name} has no endpoint definition", "Give an object with method, path and semantic.")
    return value
