"""The ``agtp`` group: it knows each command's name and summary, and imports a command's module only when called."""

from __future__ import annotations

import difflib
import errno
import importlib
import os
from collections.abc import Iterator
from typing import Any

import click

from agtphost import __version__
from agtphost.cli.groups import SuggestingGroup, config_option, take_config
from agtphost.vocabulary import platforms

SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Set up and run a host": {
        "up": ("Start a trial host in the foreground.", "up"),
        "init": ("Create a deployment directory.", "init"),
        "run": ("Run a host in the foreground.", "run"),
        "check": ("Validate a host.toml completely.", "check"),
        "reload": ("Make a running host apply its changed configuration.", "reload"),
        "status": ("Show the state of a host, and why it is not ready.", "status"),
        "page": ("Get a sign-in link to the operators' page.", "page"),
        "upstream": ("List, show, add and remove upstream servers.", "upstream.commands"),
        "store": ("Create, copy, upgrade and show a host's store in a database.", "store"),
        "cluster": ("Show the hosts that share a store.", "cluster"),
        "backup": ("Back up a host, also while it runs.", "backup.commands"),
        "restore": ("Restore a host from a backup, verified.", "backup.restore"),
    },
    "Call": {
        "call": ("Send one request and show the answer.", "call"),
        "tools": ("List, show, call and approve hosted tools.", "tools"),
        "can": ("Ask whether an agent may make a call.", "can"),
        "explain": ("Explain a decision about a call.", "explain"),
        "propose": ("Propose an endpoint that a host does not have.", "propose"),
        "contracts": ("List, show, revoke and sweep negotiated contracts.", "contracts"),
        "resolve": ("Show what a URI addresses, verified.", "resolve"),
        "methods": ("Show the methods of the drafts, or those of a host.", "methods"),
        "registry": ("Find agents by their cards, call them, and register more.", "registry.commands"),
        "mcp-bridge": ("Serve a host's tools to any MCP client.", "mcp_bridge"),
        "client": ("Add a host to Claude, VS Code or Cursor.", "client.commands"),
    },
    "Agents, rights and decisions": {
        "agent": ("List, issue and manage agents.", "agent.commands"),
        "approvals": ("Decide about calls that wait for a person.", "approvals"),
        "domain": ("Report expired domains to a host.", "domain"),
        "delegation": ("Issue and show delegation tokens.", "delegation"),
        "genesis": ("Issue and verify an Agent Genesis.", "genesis"),
        "document": ("Sign and verify an Identity Document.", "document"),
    },
    "Evidence and keys": {
        "audit": ("Search, count, verify and export records.", "audit.commands"),
        "key": ("Create, show and rotate signing keys.", "key.commands"),
        "cert": ("Issue, list, show, renew and revoke certificates.", "cert.commands"),
    },
    "Build and publish": {
        "endpoint": ("List and create endpoints of your own.", "endpoint.commands"),
        "openapi": ("Import and export OpenAPI documents.", "openapi"),
        "agis": ("Check and convert AGIS documents.", "agis"),
        "catalog": ("Show, compare, check, fetch and pin method catalogs.", "catalog.commands"),
        "manifest": ("Show and check a server's manifest.", "manifest"),
        "wellknown": ("Print the document of /.well-known/agtp.", "wellknown"),
        "conformance": ("Test a server over the wire, requirement by requirement.", "conformance"),
        "docs": ("Print a page of the documentation, or list all pages.", "docs"),
        "completion": ("Print the completion script of a shell.", "completion"),
    },
}
"""The commands by the section of help: name to summary and module of this package. Each module has a ``command``."""

COMMANDS = {name: entry for section in SECTIONS.values() for name, entry in section.items()}
"""All commands, in the order of help."""

ALIASES = {"demo": "up", "upstreams": "upstream"}
"""Further names of commands, which ``--help`` does not list."""

MEANT = {
    "operator": ("docs operators",),
    "operators": ("docs operators",),
    "records": ("audit search",),
    "log": ("audit follow", "audit search"),
    "logs": ("audit follow", "audit search"),
}
"""The commands for words that name a subject and not a command."""

HOST_COMMANDS = frozenset({"up", "run", "init", "check", "backup", "restore", "store", "cluster", "client"})
"""Commands that create or run a host on this machine. On a platform without hosts they fail before they do anything."""


def _make_platform_error(name: str) -> Exception:
    """Return the error for a command that needs a POSIX system."""
    from agtphost.cli.failures import WrongInput

    return WrongInput(platforms.explain_platform(f"agtp {name}"), platforms.REMEDY)


JSON_GIVEN = "agtphost.json-given"
"""Key of a click context's ``meta`` that is true if the command line has ``--json``, read or not."""


def _to_wrong_usage(error: click.UsageError, as_json: bool) -> click.UsageError:
    """Return an error of Click's in our words; a command without arguments, which shows its help, as it is."""
    from agtphost.cli.usage_errors import WrongUsage

    if isinstance(error, (WrongUsage, click.exceptions.NoArgsIsHelpError)):
        return error
    return WrongUsage(error, as_json)


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Errors of the system that any output can meet, standard output too."""


class LazyGroup(SuggestingGroup):
    """
    A group whose commands are separate modules.

    Importing all modules would take longer than most commands run.
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
        command: click.Command = take_config(module.command)
        if "_AGTP_COMPLETE" in os.environ:
            from agtphost.cli.completion_sources import attach

            attach(command)
        return command

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the group's own options; turn Click's errors about them into ours."""
        as_json = "--json" in args
        try:
            context = super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            raise _to_wrong_usage(error, as_json) from error
        context.meta[JSON_GIVEN] = as_json
        return context

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; turn errors of Click and of the client library into the command's errors."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            raise _to_wrong_usage(error, ctx.meta.get(JSON_GIVEN, False)) from error
        except (RuntimeError, click.ClickException):
            raise  # These are Click's own; do not import the client for them.
        except ModuleNotFoundError as error:
            if error.name not in platforms.POSIX_MODULES:
                raise
            # A command imports this part, which works on a host's own files, only when needed.
            raise _make_platform_error(" ".join((ctx.invoked_subcommand or "", "on this machine")).strip()) from None
        except Exception as error:
            from agtphost.cli.exchange import failure_of
            from agtphost.client.errors import ClientError

            if isinstance(error, ClientError):
                raise failure_of(error) from None
            if isinstance(error, OSError) and error.errno in _FULL:
                from agtphost.cli.failures import unusable_file

                raise unusable_file(error) from error
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, summary) for name, (summary, _) in commands.items()], col_max=16)

    def find_near(self, ctx: click.Context, word: str) -> list[str]:
        """Return commands of groups that have exactly this name, those of agents first, or else close names."""
        found = sorted(self._of_groups(ctx, word), key=lambda name: not name.startswith("agent "))
        return found[:5] or [*MEANT.get(word, ())] or difflib.get_close_matches(word, COMMANDS)

    def _of_groups(self, ctx: click.Context, name: str) -> Iterator[str]:
        """Yield the commands of groups with a name, such as ``audit verify`` for ``verify``; shared verbs last."""
        by_verb = []
        for group in COMMANDS:
            command = None if platforms.lacks_host() and group in HOST_COMMANDS else self.get_command(ctx, group)
            if not isinstance(command, click.Group) or command.get_command(ctx, name) is None:
                continue
            if name in command.commands:
                yield f"{group} {name}"
            else:
                by_verb.append(f"{group} {name}")
        yield from by_verb


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
    Call AGTP hosts, and operate one.

    In a directory with a host.toml, commands use that host with its authority and keys; --config and --profile name
    other hosts.

    \b
    Examples:
      agtp up
      agtp init work && cd work && twistd -n agtp --config host.toml
      agtp tools ls
      agtp tools call files.list_files
      agtp call agtp://agents.example.com DISCOVER
    """


agtp.params.append(config_option())
