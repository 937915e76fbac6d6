"""The command ``agtp completion``: print the script that a shell evaluates to complete commands."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from agtphost.cli.completion_sources import VARIABLE
from agtphost.cli.failures import WrongInput
from agtphost.cli.options import json_option
from agtphost.cli.output import print_json


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@json_option
@click.pass_context
def command(context: click.Context, shell: str, as_json: bool) -> None:
    """
    Print the completion script of a shell.

    It completes commands and options, and agents, tools, methods, paths and the Audit-IDs of the newest records of the
    host whose host.toml is in the current directory or named by --config.

    \b
    Examples:
      agtp completion bash > ~/.local/share/bash-completion/completions/agtp
      agtp completion zsh > ~/.zfunc/_agtp
      agtp completion fish > ~/.config/fish/completions/agtp.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise WrongInput(f"no completion for {shell}")
    script = kind(context.find_root().command, {}, "agtp", VARIABLE).source()
    if as_json:
        print_json({"shell": shell, "script": script})
    else:
        click.echo(script)
