"""The command ``agtp check``: report every reason that would keep a host from starting."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agtphost.cli.colour import Verdict, echo
from agtphost.cli.failures import WrongInput, configuration_error
from agtphost.cli.host_config import NO_HOST, find_config
from agtphost.cli.options import Connection, host_file, json_option, named_file
from agtphost.cli.output import print_json, print_note
from agtphost.errors import ConfigurationError, Problem
from agtphost.vocabulary.foreign_errors import explain

if TYPE_CHECKING:
    from agtphost.config import Config


@click.command()
@host_file
@click.option("--ask", is_flag=True, help="Also start the MCP servers, and compare their tools with the rules.")
@json_option
def command(file: Path | None, named: Path | None, ask: bool, as_json: bool) -> None:
    """
    Validate a host.toml and every file that it names; list all problems with file, line and hint.

    This runs every step of a start but the last: it checks store, checkpoint, agents, endpoints and port, and changes
    nothing. If the host runs, store and port are not checked.

    The exit status is 0 if the host would start, and 2 if not. Warnings of a start are listed, too.

    \b
    Examples:
      agtp check host.toml
      agtp check --ask
      agtp check --json
    """
    path = find_config(Connection(config=named_file(file, named)))
    if path is None:
        raise WrongInput("no host.toml is named", NO_HOST)
    # This command alone imports all modules of a host.
    from twisted.internet import reactor

    from agtphost.host.rehearsal import rehearse, syntax_problems

    try:
        found = rehearse(path, os.environ, reactor)
    except ConfigurationError as error:
        # A file that is not TOML cannot be checked further, but the syntax of the files next to it can.
        raise configuration_error(
            ConfigurationError([*error.problems, *syntax_problems(path.absolute().parent)])
        ) from None
    config, problems, remarks = found.config, list(found.problems), list(found.remarks)
    if not ask:
        from agtphost.host.server_check import unasked_warnings

        remarks += unasked_warnings(config)
    else:
        asked = _ask_servers(config, reactor)
        problems += asked[0]
        remarks += asked[1]
    if not as_json:
        for remark in remarks:
            print_note(f"note: {remark}")
    if problems:
        raise configuration_error(ConfigurationError(problems))
    if as_json:
        print_json({"file": str(config.file), "problems": [], "notes": remarks})
    else:
        servers = len(config.mcp.server)
        echo(f"{config.file}: sound ({config.host.profile}, MCP servers: {servers})", Verdict.GOOD)


def _ask_servers(config: Config, reactor: Any) -> tuple[list[Problem], list[str]]:
    """Ask the MCP servers for their tools; return the problems and remarks about the rules for them."""
    from twisted.internet.defer import Deferred

    from agtphost.host.server_check import ask_servers

    outcome: list[Any] = []

    def begin() -> None:
        asking = Deferred.fromCoroutine(ask_servers(config, reactor, os.environ))
        asking.addBoth(outcome.append).addBoth(lambda _: reactor.stop())

    reactor.callWhenRunning(begin)
    reactor.run()
    answer = outcome[0] if outcome else None
    if not isinstance(answer, tuple):
        error = getattr(answer, "value", None)
        why = "it was interrupted" if error is None else explain(error)
        raise WrongInput(f"the MCP servers could not be asked: {why}", "Without --ask no server is asked.") from error
    problems, remarks = answer
    return problems, remarks
