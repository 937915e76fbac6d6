"""The ``agtp agent`` group: agents of a host, and their lifecycle (core v08 sections 7.2.14 to 7.2.19, and 11.7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from agtphost.audit.retention import RETAINED, YEARS, free_at
from agtphost.cli.agent import grants
from agtphost.cli.agent.agent_list import NOT_ADMITTED, agents_of, show_agents
from agtphost.cli.agent.allow import allow_command
from agtphost.cli.agent.issue import new_command
from agtphost.cli.agent.renewal import renew_command
from agtphost.cli.agent.rights import rights_command
from agtphost.cli.agent.rights_requests import ask_agents, find_unadmitted
from agtphost.cli.audit.store import open_records
from agtphost.cli.cert.commands import describe
from agtphost.cli.exchange import ask, entries_of, result_of
from agtphost.cli.failures import WrongInput, local_file
from agtphost.cli.groups import VerbGroup
from agtphost.cli.host_config import AGENT_STATES, find_config, find_usable_config, load_usable_config, require_config
from agtphost.cli.identities import LocalAgent, agent_id_of, find_named, local_agents, suggest_name
from agtphost.cli.options import EXISTING, Connection, connection_options, host_options, wide_option
from agtphost.cli.output import print_answer, print_entries, print_json, print_summary, print_table, visible
from agtphost.cli.target import resolve
from agtphost.client.local_identities import REGISTRAR
from agtphost.identity import documents, envelope
from agtphost.identity.genesis import Genesis, GenesisError
from agtphost.vocabulary import times
from agtphost.vocabulary.identifiers import is_agent_name

EVENTS = 1000
ENDED = frozenset(status.value for status in YEARS)
ASKED = {"NAME": "name", "AGENT-ID": "agent_id", "KIND": "kind", "STATE": "status", "SCOPES": "scopes"}
"""The columns of agents that the running host lists."""

HEADINGS = {"state": "NOW"}


@click.group(cls=VerbGroup)
def command() -> None:
    """
    List, issue and manage agents.

    AGENT is the label of an agent of this host, or an Agent-ID.
    """


# Listing


@command.command()
@click.option("--uri", metavar="URI", help="List the agents of this host instead.")
@click.option("--wide", is_flag=True, help="Show full Agent-IDs, kinds, and each grant with its end.")
@connection_options
def ls(uri: str | None, wide: bool, where: Connection, as_json: bool) -> None:
    """
    List the agents of a host.

    Lists the agents in the configured host's files: state, scopes, when the certificate ends (with a warning from
    14 days ahead), and the grants that limit its calls. A running host is asked which of them it has not admitted yet.
    With --uri, lists the agents that another host discloses.

    \b
    Examples:
      agtp agent ls
      agtp agent ls --wide
      agtp agent ls --uri agtp://agents.example.com
    """
    path = find_config(where) if uri is None else None
    if path is None:
        listed = entries_of(ask(resolve(where, uri), "DISCOVER", "/agents").result, "agents")
        print_entries(listed, ("name", "agent_id", "trust_tier", "description"), as_json)
        return
    config = find_usable_config(path, *AGENT_STATES)
    if config is None:
        print_entries(ask_agents(where), ASKED, as_json)
        return
    show_agents(config, where, wide=wide, as_json=as_json)


@command.command()
@click.argument("agent", metavar="AGENT")
@click.option("--uri", metavar="URI", help="Ask this host instead of reading the configured one's files.")
@click.option("--html", type=EXISTING, metavar="FILE", help="Write a page for people to FILE instead.")
@connection_options
def show(agent: str, uri: str | None, html: Path | None, where: Connection, as_json: bool) -> None:
    """
    Show an agent: identity, state, scopes, trust.

    \b
    Examples:
      agtp agent show demo
      agtp agent show demo --html demo.html
      agtp agent show librarian --uri agtp://agents.example.com --json
    """
    path = find_config(where) if uri is None else None
    if path is None:
        document = dict(ask(resolve(where, uri), "DESCRIBE", f"/agents/{_label(agent)}").document)
        if html is not None:
            _write_page(document, html, as_json)
            return
        print_answer(document, as_json)
        return
    config = find_usable_config(path, *AGENT_STATES)
    if config is None and html is None:
        known = ask_agents(where)
        answers = (one for one in known if agent in (one["name"], one["agent_id"]))
        answer = next(answers, None) or _raise_unknown(agent, [str(one["name"]) for one in known])
        print_json(answer) if as_json else print_summary(answer)
        return
    config = config or load_usable_config(path, *AGENT_STATES)
    named = find_named(config, agent) or _raise_unknown(agent, [one.name for one in local_agents(config)])
    found = next((one for one in agents_of(config) if one.agent_id == named.agent_id), named)
    if html is not None:
        _write_page(documents.build_served_copy(found.document, status=found.status), html, as_json)
        return
    fields = {**found.fields(), **_further(found)}
    if find_unadmitted(where, [found.agent_id]):
        fields["status"] = NOT_ADMITTED
    if as_json:
        print_json({**fields, "document": found.document})
    else:
        print_summary(fields)


def _raise_unknown(agent: str, names: Sequence[str]) -> NoReturn:
    raise WrongInput(f"no agent is named {agent!r} here", suggest_name(agent, names))


def _write_page(document: Mapping[str, Any], file: Path, as_json: bool) -> None:
    """Write the human-readable page of an Identity Document (core v08 section 6.3)."""
    from agtphost.identity.document_view import page

    with local_file(file, doing="written"):
        file.write_text(page(document), encoding="utf-8")
    print_json({"file": str(file)}) if as_json else click.echo(f"wrote {file}")


def _label(agent: str) -> str:
    if not is_agent_name(agent):
        raise WrongInput(
            f"{agent[:64]!r} is neither a label nor an Agent-ID",
            "A label has 1 to 64 letters, digits, '-' or '_'; `agtp agent ls` lists agents.",
        )
    return agent


def _further(agent: LocalAgent) -> dict[str, object]:
    """Return the fields that come from the files other than the document."""
    fields: dict[str, object] = {
        "description": agent.document.get("description"),
        "principal": agent.document.get("principal"),
        "trust_tier": agent.document.get("trust_tier"),
        "verification_path": agent.document.get("verification_path"),
        "directory": str(agent.directory),
    }
    origin = agent.directory / "genesis.json"
    if origin.is_file():
        try:
            fields["issuer_fingerprint"] = Genesis.load(origin.read_bytes()).issuer_fingerprint
        except GenesisError as error:
            raise WrongInput(
                f"{origin} is not a valid Genesis: {error}", "Issue the agent again, or restore its files."
            ) from None
    certificate = agent.directory / "agent.pem"
    if certificate.is_file():
        fields["certificate_expires"] = describe(certificate)["not_after"]
    return fields


command.add_command(new_command)
command.add_command(renew_command)
command.add_command(allow_command)
command.add_command(rights_command)
for _command in grants.commands():
    command.add_command(_command)


# Ended agents


@command.command("retained")
@click.argument("agent", required=False, metavar="[AGENT]")
@wide_option
@connection_options
def show_retained(agent: str | None, where: Connection, as_json: bool) -> None:
    """
    Show what the host keeps about agents that have ended.

    Reads the host's own store; it is not available over the network. NOW is the present state of an agent that was
    reinstated or revoked since. With AGENT, a label or an Agent-ID, it shows everything: the archived Genesis, and
    each transition with its time.

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
            # A deprecation that was cancelled stays on record, and the agent keeps its label.
            value["state"] = value["status"] if state is None else state.status
            back = value["state"] not in ENDED
            value["label_free_at"] = None if back else times.stamp(free_at(value))
        if agent is not None:
            one = next((value for value in found if agent in (value["label"], value["agent_id"])), None)
            if one is None:
                raise WrongInput(f"nothing is retained of {agent!r}", "`agtp agent retained` lists them.")
            one["transitions"] = [_event(event) for event in reader.lifecycle(one["agent_id"], EVENTS)][::-1]
            print_answer(one, as_json)
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


# Lifecycle


_SUMMARIES = {
    "activate": "Activate an agent, so that it may serve and call.",
    "deactivate": "Suspend an agent until it is reinstated.",
    "reinstate": "Reinstate a suspended or deprecated agent.",
    "revoke": "Revoke an agent permanently.",
    "deprecate": "Announce the end of an agent; it keeps serving until then.",
}


def _change(verb: str, agent: str, where: Connection, as_json: bool, given: dict[str, Any]) -> None:
    parameters = {name: value for name, value in given.items() if value is not None}
    if "successor_agent_id" in parameters:
        parameters["successor_agent_id"] = agent_id_of(where, parameters["successor_agent_id"])
    agent_id = agent_id_of(where, agent)
    target = resolve(where, identity=REGISTRAR)
    reply = ask(target, verb.upper(), "/", {"agent_id": agent_id, **parameters})
    result = dict(result_of(reply))
    if as_json:
        print_json(result)
        return
    if result.get("noop"):
        click.echo(visible(f"{agent} is {result.get('status')} already; nothing changed"))
        return
    print_summary(result)


def _options(verb: str) -> list[Callable[[Any], Any]]:
    reason = click.option("--reason", required=verb == "revoke", metavar="TEXT", help="Reason, for the signed event.")
    options = [click.argument("agent", metavar="AGENT"), reason]
    options.append(click.option("--actor", metavar="TEXT", help="Who decided, for the signed event."))
    if verb == "deprecate":
        successor = click.option("--successor", "successor_agent_id", metavar="AGENT", help="Agent that takes over.")
        deadline = click.option(
            "--deadline",
            "migration_deadline",
            metavar="TIME",
            help="End of the agent, in the form of RFC 3339: 2027-01-31T00:00:00Z.",
        )
        options += [successor, deadline]
    return [*options, host_options]


def _verb(verb: str) -> click.Command:
    def run(agent: str, where: Connection, as_json: bool, **given: Any) -> None:
        _change(verb, agent, where, as_json, given)

    run.__doc__ = (
        f"{_SUMMARIES[verb]}\n\n"
        "Needs the client certificate of the agent's Genesis issuer: the configured host's\n"
        "registrar, unless --cert names another. Takes effect at the agent's next request.\n\n"
        f"\b\nExample:\n  agtp agent {verb} demo --reason planned"
    )
    decorated: Any = run
    for option in reversed(_options(verb)):
        decorated = option(decorated)
    made: click.Command = click.command(verb)(decorated)
    return made


for _each in _SUMMARIES:
    command.add_command(_verb(_each))
