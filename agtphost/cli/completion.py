"""``agtp completion``: what a shell evaluates to complete commands."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from agtphost.cli.failures import WrongInput

VARIABLE = "_AGTP_COMPLETE"
"""What the script sets when it asks this program for completions."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """
    Print the completion script of a shell.

    \b
    Examples:
      agtp completion bash > ~/.local/share/bash-completion/completions/agtp
      agtp completion zsh > ~/.zfunc/_agtp
      agtp completion fish > ~/.config/fish/completions/agtp.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise WrongInput(f"no completion for {shell}")
    click.echo(kind(context.find_root().command, {}, "agtp", VARIABLE).source())
