"""``agtp agent retained``: what is kept of agents that were revoked or deprecated (core v08 section 11.7)."""

from __future__ import annotations

from typing import Any

import click

from agtphost.audit.retention import RETAINED, YEARS, free_at, stamp
from agtphost.cli.audit.store import open_records
from agtphost.cli.configured import require_config
from agtphost.cli.failures import WrongInput
from agtphost.cli.options import Connection, connection_options, json_option
from agtphost.cli.output import print_json, print_summary, print_table
from agtphost.identity import envelope

EVENTS = 1000
ENDED = frozenset(status.value for status in YEARS)
HEADINGS = {"state": "NOW"}


@click.command("retained")
@click.argument("agent", required=False, metavar="[AGENT]")
@connection_options
@json_option
def retained_command(agent: str | None, where: Connection, as_json: bool) -> None:
    """
    Show what is kept of agents that were revoked or deprecated.

    Reads the host's own store; it is shown to nobody over the network. NOW is the state of
    an agent that was reinstated, or revoked since. With AGENT, a label
    or an Agent-ID, everything: the archived Genesis, and each transition with its time.

    \b
    Examples:
      agtp agent retained
      agtp agent retained demo --json
    """
    config = require_config(where, "the retained record")
    with open_records(config) as reader:
        found = reader.state_items(RETAINED)
        states = reader.lifecycle_states()
        for value in found:
            state = states.get(value["agent_id"])
            # A deprecation that was cancelled stays on record, and the label is its agent's.
            value["state"] = value["status"] if state is None else state.status
            back = value["state"] not in ENDED
            value["label_free_at"] = None if back else stamp(free_at(value))
        if agent is not None:
            one = next((value for value in found if agent in (value["label"], value["agent_id"])), None)
            if one is None:
                raise WrongInput(f"nothing is retained of {agent!r}", "`agtp agent retained` lists what is.")
            one["transitions"] = [_event(event) for event in reader.lifecycle(one["agent_id"], EVENTS)][::-1]
            print_json(one) if as_json else print_summary(one)
            return
    if as_json:
        print_json(found)
        return
    columns = ("label", "agent_id", "status", "ended_at", "state", "label_free_at", "keep_until")
    print_table(
        [HEADINGS.get(column, column.upper().replace("_", "-")) for column in columns],
        ([value[name] or "-" for name in columns] for value in found),
    )


def _event(event: Any) -> dict[str, Any]:
    payload = envelope.parse_unverified(event.format, event.signed)
    members = ("event_type", "previous_status", "new_status", "issued_at", "reason", "actor")
    return {"audit_id": event.audit_id, **{name: payload[name] for name in members if name in payload}}
