"""The ``agtp`` group: it knows every command's name and summary, and imports the rest when asked."""

from __future__ import annotations

import importlib
import os
from typing import Any

import click

from agtphost import __version__
from agtphost.vocabulary import platforms

COMMANDS: dict[str, tuple[str, str]] = {
    "up": ("Start a host to try, in the foreground.", "up"),
    "run": ("Run a host in the foreground.", "run"),
    "init": ("Write a ready deployment directory.", "init"),
    "check": ("Validate a host.toml completely.", "check"),
    "call": ("Send one request and show the answer.", "call"),
    "propose": ("Propose an endpoint that a host does not have.", "propose"),
    "contracts": ("List, revoke and sweep negotiated contracts.", "contracts"),
    "resolve": ("Show what a URI addresses, checked.", "resolve"),
    "tools": ("List, call and approve hosted tools.", "tools"),
    "registry": ("Find agents by their cards, call them, and register more.", "registry.commands"),
    "mcp-bridge": ("Serve a host's tools to any MCP client.", "mcp_bridge"),
    "status": ("Show how a host is, and why it is not ready.", "status"),
    "client": ("Write a host into Claude, VS Code or Cursor.", "client.commands"),
    "backup": ("Back up a host, also while it runs.", "backup.commands"),
    "restore": ("Restore a host from a backup, verified.", "backup.restoring"),
    "upstreams": ("Show what hosted servers are up to.", "upstreams"),
    "reload": ("Have a running host take what was changed in its configuration.", "reload"),
    "page": ("Get a link to the page for the people who run a host.", "page"),
    "agent": ("Agents and their lifecycle.", "agent.commands"),
    "domain": ("Tell a host of domains that expired.", "domain"),
    "audit": ("Fetch, walk, verify and export records.", "audit.commands"),
    "approvals": ("Decide about calls that wait for a person.", "approvals"),
    "explain": ("Explain why a call was decided as it was.", "explain"),
    "can": ("Ask whether an agent may make a call.", "can"),
    "endpoint": ("Write endpoints of your own.", "endpoint.commands"),
    "key": ("Make, show and rotate signing keys.", "key.commands"),
    "genesis": ("Issue and verify an Agent Genesis.", "genesis"),
    "document": ("Sign and verify an Identity Document.", "document"),
    "cert": ("Issue, show and revoke certificates.", "cert.commands"),
    "delegation": ("Issue and show the tokens that DELEGATE wants.", "delegation"),
    "methods": ("Show what the drafts say of each method, or what a host offers.", "methods"),
    "catalog": ("Show, compare, check, fetch and pin method catalogs.", "catalog.commands"),
    "agis": ("Examine and convert AGIS documents.", "agis"),
    "openapi": ("Import and export OpenAPI documents.", "openapi"),
    "manifest": ("Show and check a server's manifest.", "manifest"),
    "wellknown": ("Print the document of /.well-known/agtp.", "wellknown"),
    "conformance": ("Examine a server over the wire, requirement by requirement.", "conformance"),
    "docs": ("Print a page of the documentation, or list them.", "docs"),
    "completion": ("Print the completion script of a shell.", "completion"),
}
"""Name to summary and module of this package; each module has a ``command``."""

ALIASES = {"demo": "up"}
"""Further names, which no list has."""

HOST_COMMANDS = frozenset({"up", "run", "init", "check", "backup", "restore", "client"})
"""Commands that make or run a host on this machine: refused where none can run, before they do anything."""


def _make_platform_error(name: str) -> Exception:
    """Return the failure of a command that needs a POSIX system."""
    from agtphost.cli.failures import WrongInput

    return WrongInput(platforms.explain_platform(f"agtp {name}"), platforms.REMEDY)


class LazyGroup(click.Group):
    """
    A group whose commands are modules.

    Importing all of them would take longer than most of them run.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = ALIASES.get(cmd_name, cmd_name)
        if cmd_name not in COMMANDS:
            return None
        if cmd_name in HOST_COMMANDS and platforms.lacks_host():
            raise _make_platform_error(cmd_name)
        try:
            module = importlib.import_module(f"agtphost.cli.{COMMANDS[cmd_name][1]}")
        except ModuleNotFoundError as error:
            if error.name in platforms.POSIX_MODULES:
                raise _make_platform_error(cmd_name) from None
            raise
        command: click.Command = module.command
        if "_AGTP_COMPLETE" in os.environ:
            from agtphost.cli.completing import attach

            attach(command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; what the client library cannot do, or cannot find, is its failure."""
        try:
            return super().invoke(ctx)
        except (RuntimeError, click.ClickException):
            raise  # Click's own, without an import of the client.
        except ModuleNotFoundError as error:
            if error.name not in platforms.POSIX_MODULES:
                raise
            # A part of a command that works on a host's own files, which it imports when it needs it.
            raise _make_platform_error(" ".join((ctx.invoked_subcommand or "", "on this machine")).strip()) from None
        except Exception as error:
            from agtphost.cli.exchange import failure_of
            from agtphost.client.errors import ClientError

            if isinstance(error, ClientError):
                raise failure_of(error) from None
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (summary, _) in COMMANDS.items()])


def _version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        click.echo(f"agtphost {__version__}")
        context.exit()


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit status: 0 success, 1 refused by the host, 2 wrong usage or input, "
    "3 no connection, 4 verification failed, 5 held for a person to approve.",
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
def agtp() -> None:
    """
    Talk to hosts that speak AGTP, and look after one.

    In a directory with a host.toml, commands find that host, its authority and
    its keys by themselves; --config and --profile name others.

    \b
    Examples:
      agtp up
      agtp init work && cd work && twistd -n agtp --config host.toml
      agtp tools ls
      agtp tools call files.list_files
      agtp call agtp://agents.example.com DISCOVER
    """
