"""``agtp agent activate`` and so on: the lifecycle methods (core v08 sections 7.2.14 to 7.2.19)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from agtphost.cli.exchange import ask, result_of
from agtphost.cli.identities import REGISTRAR, agent_id_of
from agtphost.cli.options import Connection, connection_options, host_option, json_option
from agtphost.cli.output import print_json, print_summary
from agtphost.cli.target import resolve

_SUMMARIES = {
    "activate": "Let an agent serve and call.",
    "deactivate": "Suspend an agent until it is reinstated.",
    "reinstate": "Bring a suspended or deprecated agent back.",
    "revoke": "Retire an agent for ever.",
    "deprecate": "Announce that an agent will go; it serves on.",
}


def _change(verb: str, agent: str, uri: str, where: Connection, as_json: bool, given: dict[str, Any]) -> None:
    parameters = {name: value for name, value in given.items() if value is not None}
    if "successor_agent_id" in parameters:
        parameters["successor_agent_id"] = agent_id_of(where, parameters["successor_agent_id"])
    agent_id = agent_id_of(where, agent)
    target = resolve(where, uri, identity=REGISTRAR)
    reply = ask(target, verb.upper(), "/", {"agent_id": agent_id, **parameters})
    result = dict(result_of(reply))
    if as_json:
        print_json(result)
        return
    if result.get("noop"):
        click.echo(f"{agent} is {result.get('status')} already; nothing changed")
        return
    print_summary(result)


def _options(verb: str) -> list[Callable[[Any], Any]]:
    reason = click.option("--reason", required=verb == "revoke", metavar="TEXT", help="Goes into the signed event.")
    options = [click.argument("agent", metavar="AGENT"), reason]
    options.append(click.option("--actor", metavar="TEXT", help="Who decided; goes into the signed event."))
    if verb == "deprecate":
        options.append(click.option("--successor", "successor_agent_id", metavar="AGENT", help="Who takes over."))
        options.append(click.option("--deadline", "migration_deadline", metavar="TIME", help="RFC 3339: until when."))
    return [*options, host_option, connection_options, json_option]


def _verb(verb: str) -> click.Command:
    def run(agent: str, uri: str, where: Connection, as_json: bool, **given: Any) -> None:
        _change(verb, agent, uri, where, as_json, given)

    run.__doc__ = (
        f"{_SUMMARIES[verb]}\n\n"
        "Needs the client certificate of the agent's Genesis issuer: the configured host's\n"
        "registrar, unless --cert names another. Holds from the agent's next request.\n\n"
        f"\b\nExample:\n  agtp agent {verb} demo --reason planned"
    )
    decorated: Any = run
    for option in reversed(_options(verb)):
        decorated = option(decorated)
    made: click.Command = click.command(verb)(decorated)
    return made


COMMANDS = tuple(_verb(verb) for verb in _SUMMARIES)
"""The five commands."""
