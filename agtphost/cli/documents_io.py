"""Reading and writing identity documents: from files and standard input, to files and standard output."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from agtphost.cli.failures import WrongInput
from agtphost.cli.output import print_json
from agtphost.identity import files

output_option = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Default: standard output.",
)


def deliver(octets: bytes, output: Path | None, agent_id: str, as_json: bool) -> None:
    """
    Write a document, exactly these octets: hashes and signatures cover them.

    Standard output then has nothing else; which agent it is of goes to the error output.

    :param as_json: whether a file's name and its agent are told as JSON.
    :raises CommandError: if the file exists already or cannot be written.
    """
    if output is None:
        sys.stdout.buffer.write(octets)
        sys.stdout.buffer.flush()
        click.echo(f"agent_id {agent_id}", err=True)
        return
    try:
        files.write_once(output, octets, files.PUBLIC)
    except FileExistsError:
        raise WrongInput(f"{output} exists", "Choose another name, or move it away.") from None
    except OSError as error:
        raise WrongInput(f"{output} cannot be written: {error.strerror}") from None
    if as_json:
        print_json({"agent_id": agent_id, "file": str(output)})
    else:
        click.echo(f"wrote {output}\nagent_id {agent_id}", err=True)
