"""Reading and writing identity documents: from files and standard input, to files and standard output."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from agtphost.cli.failures import WrongInput
from agtphost.identity import files

output_option = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Default: standard output.",
)


def deliver(octets: bytes, output: Path | None) -> None:
    """
    Write a document, exactly these octets: hashes and signatures cover them.

    :raises CommandError: if the file exists already or cannot be written.
    """
    if output is None:
        sys.stdout.buffer.write(octets)
        sys.stdout.buffer.flush()
        return
    try:
        files.write_once(output, octets, files.PUBLIC)
    except FileExistsError:
        raise WrongInput(f"{output} exists", "Choose another name, or move it away.") from None
    except OSError as error:
        raise WrongInput(f"{output} cannot be written: {error.strerror}") from None
