"""Groups of commands: verbs that all groups share, ``--config`` at every level, and help in sections."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import click

from agtphost.cli.options import HOST_TOML

SHARED_VERBS: Mapping[str, Sequence[str]] = {
    "list": ("list", "ls", "history"),
    "ls": ("list", "ls", "history"),
    "create": ("create", "new", "issue", "add", "init", "connect"),
    "show": ("show", "get", "status", "verify"),
    "revoke": ("revoke", "remove", "withdraw", "disconnect"),
}
"""The verbs that may be typed in every group, and the names of a command of that meaning there, the closest first."""

_ENDING = ("remove", "revoke", "deactivate", "disconnect", "withdraw")

MEANT: Mapping[str, Sequence[str]] = {
    "delete": _ENDING,
    "remove": _ENDING,
    "rm": _ENDING,
    "add": ("add", "create", "connect"),
    "find": ("search",),
    "query": ("search",),
    "accept": ("approve",),
    "deny": ("reject",),
    "list": ("search", "status"),
    "allow": ("approve",),
    "decide": ("approve",),
}
"""What words of other programs and groups mean here, which are close to none of our names."""

ELSEWHERE: Mapping[str, Sequence[str]] = {
    "allow": ("agtp agent allow",),
    "limit": ("agtp agent limit",),
    "revoke": ("agtp agent limit", "agtp agent revoke"),
    "decide": ("agtp approvals decide", "agtp contracts decide"),
    "tools allow": ("agtp agent allow",),
    "tools create": ("agtp upstream add", "agtp endpoint create"),
    "contracts create": ("agtp propose",),
    "key revoke": ("rotate",),
}
"""Shared verbs that make no sense in a group, or in one by its name, and the commands that may be meant."""

CONFIG = "agtphost.cli.groups.config"
"""Key of a click context's ``meta`` with the value of ``--config`` in front of a command."""


def _remember_config(context: click.Context, _: click.Parameter, value: Any) -> None:
    if value is not None:
        context.meta[CONFIG] = value


def config_option() -> click.Option:
    """Return the option ``--config`` of a group, which counts for the command that follows."""
    return click.Option(
        ["--config"],
        type=HOST_TOML,
        metavar="FILE",
        expose_value=False,
        is_eager=True,
        callback=_remember_config,
        help="The host.toml, or its directory; also allowed after the command.",
    )


class SuggestingGroup(click.Group):
    """A group whose error for an unknown command names close ones, and which refuses a ``--config`` without use."""

    def find_near(self, ctx: click.Context, word: str) -> list[str]:
        """Return names that are close to an unknown one."""
        raise NotImplementedError

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve the name of a command."""
        name, command, rest = super().resolve_command(ctx, args)
        require_config_use(ctx, command, args[0])
        return name, command, rest


class VerbGroup(SuggestingGroup):
    """
    A group of commands that also knows the shared verbs, and takes ``--config`` in front of its commands.

    Where a command has another name, such as ``ls`` or ``new``, both names work, and help shows both.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.params.append(config_option())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a name or of a shared verb."""
        found = super().get_command(ctx, cmd_name)
        if found is None:
            found = next(iter(self._meant_by(cmd_name)), None)
        return None if found is None else take_config(found)

    def _meant_by(self, verb: str) -> list[click.Command]:
        """Return the command of a shared verb; none if the group has none of that meaning."""
        return [self.commands[name] for name in SHARED_VERBS.get(verb, ()) if name in self.commands][:1]

    def verb_of(self, name: str) -> str:
        """Return the shared verb of a command, or its name if it has none."""
        for verb, names in SHARED_VERBS.items():
            if verb != "ls" and name in names and self._meant_by(verb) == [self.commands[name]]:
                return verb
        return name

    def find_near(self, ctx: click.Context, word: str) -> list[str]:
        """Return names and shared verbs that mean the same as an unknown one, or else those that are close to it."""
        known = {*self.list_commands(ctx), *(verb for verb in SHARED_VERBS if self._meant_by(verb))}
        by_group = ELSEWHERE.get(f"{ctx.info_name} {word}", ())
        meant = [] if by_group else [name for name in MEANT.get(word, ()) if name in self.commands]
        return meant or [*(by_group or ELSEWHERE.get(word, ()))] or difflib.get_close_matches(word, sorted(known))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, each by its shared verb and then by its other name."""
        rows = []
        for name in self.list_commands(ctx):
            command = self.commands.get(name)
            if command is None or command.hidden:
                continue
            verb = self.verb_of(name)
            rows.append((name if verb == name else f"{verb}, {name}", command.get_short_help_str(limit=80)))
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


def take_config(command: click.Command) -> click.Command:
    """Let a command's own ``--config``, or its argument HOST.TOML, default to the one in front of the command."""
    for parameter in command.params:
        if parameter.type is HOST_TOML and not parameter.required and not isinstance(command, click.Group):
            parameter.default = _config_in_front
    return command


def require_config_use(ctx: click.Context, command: click.Command | None, name: str) -> None:
    """
    Require that a command uses the ``--config`` in front of it.

    :param name: of the command, as it was typed.
    :raises click.UsageError: it has no such option.
    """
    if ctx.meta.get(CONFIG) is None or command is None or isinstance(command, click.Group) or ctx.resilient_parsing:
        return
    if not any(parameter.type is HOST_TOML for parameter in command.params):
        raise click.UsageError(f"--config does not apply to {ctx.command_path} {name}", ctx)


def _config_in_front() -> Any:
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(CONFIG)
