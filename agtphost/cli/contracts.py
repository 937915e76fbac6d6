"""The ``agtp contracts`` group: the contracts negotiated with a host (AGTP-API sections 5.8.7 and 10.1.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from agtphost.cli.exchange import ask, entries_of, result_of
from agtphost.cli.failures import HostRefused
from agtphost.cli.groups import VerbGroup
from agtphost.cli.options import Connection, host_options, wide_option
from agtphost.cli.output import Column, print_answer, print_entries, print_json, visible
from agtphost.cli.target import resolve


@click.group(cls=VerbGroup)
def command() -> None:
    """List, show, revoke and sweep negotiated contracts; decide about proposals."""


@command.command()
@wide_option
@host_options
def ls(where: Connection, as_json: bool) -> None:
    """
    List the contracts in force.

    Lists the caller's own contracts; an agent with the scope inspect:all gets those of all agents.

    \b
    Examples:
      agtp contracts ls --as buyer
      agtp contracts ls --as operator --json
    """
    listed = entries_of(ask(resolve(where), "DISCOVER", "/contracts").json(), "contracts")
    columns: dict[str, Column] = {
        "SYNTHESIS ID": "synthesis_id",
        "METHOD": "method",
        "PATH": "path",
        "RECIPE": _recipe,
        "STATE": "state",
        "EXPIRES": "expires_at",
        "AGENT": _agent,
    }
    print_entries(listed, columns, as_json)


@command.command()
@click.argument("synthesis_id", metavar="SYNTHESIS_ID")
@host_options
def show(synthesis_id: str, where: Connection, as_json: bool) -> None:
    """
    Show a contract in force.

    SYNTHESIS_ID is that of `agtp contracts ls`, or its first characters.

    \b
    Example:
      agtp contracts show 3f0c... --as buyer
    """
    listed = entries_of(ask(resolve(where), "DISCOVER", "/contracts").json(), "contracts")
    start = synthesis_id.removesuffix("...")
    found = [entry for entry in listed if start and str(entry.get("synthesis_id", "")).startswith(start)]
    if len(found) != 1:
        what = f"{len(found)} contracts begin with" if found else "this caller has no contract"
        raise HostRefused(f"{what} {synthesis_id[:64]!r}", "`agtp contracts ls` lists those in force.")
    print_answer(found[0], as_json)


def _agent(entry: Mapping[str, Any]) -> str:
    return str(entry.get("originating_agent_id", ""))[:12]


def _recipe(entry: Mapping[str, Any]) -> str:
    lineage = entry.get("recipe_lineage")
    if not isinstance(lineage, Mapping):
        return "-"
    return f"{lineage.get('recipe_name')}@{lineage.get('recipe_version')}"


@command.command()
@click.argument("synthesis_id", metavar="SYNTHESIS_ID")
@click.option("--reason", metavar="TEXT", help="Reason, for the signed event.")
@click.option("--actor", metavar="TEXT", help="Who decided, for the signed event.")
@host_options
def revoke(synthesis_id: str, reason: str | None, actor: str | None, where: Connection, as_json: bool) -> None:
    """
    Revoke a contract.

    From now on the host refuses the contract's Synthesis-Id. Only the agent that the contract was made for may revoke
    it, and operators: agents with the scope inspect:all.

    \b
    Example:
      agtp contracts revoke 3f0c... --as operator --reason "no longer offered"
    """
    given = {"target": "contract", "synthesis_id": synthesis_id, **_without_none(reason=reason, actor=actor)}
    print_answer(result_of(ask(resolve(where), "REVOKE", "/", given)), as_json)


@command.command()
@click.option(
    "--mode",
    type=click.Choice(["grandfather", "invalidate"]),
    help="Report or revoke contracts of edited recipes; default: the host's on_policy_change.",
)
@click.option("--actor", metavar="TEXT", help="Who decided, for the signed events.")
@host_options
def sweep(mode: str | None, actor: str | None, where: Connection, as_json: bool) -> None:
    """
    Find contracts of edited recipes, and revoke them.

    Only for operators: agents with the scope inspect:all. Until a sweep, a contract uses the version of the recipe that
    it was made from.

    \b
    Examples:
      agtp contracts sweep --as operator
      agtp contracts sweep --as operator --mode invalidate --actor ops@example.com
    """
    given = {"target": "stale-contracts", **_without_none(mode=mode, actor=actor)}
    result = result_of(ask(resolve(where), "REVOKE", "/", given))
    if as_json:
        print_json(result)
        return
    columns = {
        "SYNTHESIS ID": "synthesis_id",
        "RECIPE": "recipe_name",
        "CAPTURED": "captured_version",
        "CURRENT": "current_version",
        "DISPOSITION": "disposition",
    }
    print_entries(result.get("contracts", ()), columns, as_json)
    counts = ", ".join(f"{result.get(name)} {name}" for name in ("unchanged", "grandfathered", "evicted", "skipped"))
    click.echo(visible(counts))


@command.command()
@host_options
def proposals(where: Connection, as_json: bool) -> None:
    """
    List the proposals that wait for a decision.

    \b
    Example:
      agtp contracts proposals --as operator
    """
    listed = result_of(ask(resolve(where), "QUERY", "/proposals")).get("proposals", [])
    columns: dict[str, Column] = {
        "PROPOSAL ID": "proposal_id",
        "METHOD": "method",
        "PATH": "path",
        "SECONDS LEFT": "estimated_seconds",
        "AGENT": _agent,
    }
    print_entries(listed, columns, as_json)


@command.command()
@click.argument("proposal_id", metavar="PROPOSAL_ID")
@click.option("--accept", "decision", flag_value="accept", help="Issue the contract.")
@click.option("--reject", "decision", flag_value="reject", help="Reject the proposal; the proposer learns of it.")
@click.option("--defer", "decision", flag_value="defer", help="Decide later; its time limit restarts.")
@click.option("--reason", metavar="TEXT", help="Reason; the proposer of a rejected proposal sees it.")
@host_options
def decide(proposal_id: str, decision: str | None, reason: str | None, where: Connection, as_json: bool) -> None:
    """
    Approve, reject or defer a waiting proposal.

    Proposals wait if [policies.synthesis] approval is "operator".

    \b
    Examples:
      agtp contracts decide 8a41... --accept --as operator
      agtp contracts decide 8a41... --reject --reason "use BOOK /room" --as operator
      agtp contracts decide 8a41... --defer --reason "legal looks at it" --as operator
    """
    if decision is None:
        raise click.UsageError("Give one of --accept, --reject and --defer.")
    word = {"deferred": True} if decision == "defer" else {"accepted": decision == "accept"}
    given = {**word, **_without_none(reason=reason)}
    print_answer(result_of(ask(resolve(where), "CONFIRM", f"/proposals/{proposal_id}", given)), as_json)


def _without_none(**values: str | None) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}
