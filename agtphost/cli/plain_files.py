"""Read and write files as bytes, for commands that need no keys and therefore import nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from agtphost.cli.failures import WrongInput, local_file
from agtphost.identity import files

MAX_BODY = 67_108_864
"""Most bytes that are read from a file or standard input."""

output_option = click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="File to write; default: standard output."
)


def read_octets(name: str | Path) -> bytes:
    """Return the bytes of a file; ``-`` is standard input."""
    with local_file(name):
        if str(name) == "-":
            octets = sys.stdin.buffer.read(MAX_BODY + 1)
        else:
            with Path(name).open("rb") as stream:
                octets = stream.read(MAX_BODY + 1)
    if len(octets) > MAX_BODY:
        raise WrongInput(f"{name} has more than {MAX_BODY} bytes")
    return octets


def write_new(file: Path, octets: bytes) -> None:
    """
    Write a new file that everyone may read.

    :raises WrongInput: the file exists or cannot be written.
    """
    with local_file(file, doing="written"):
        files.write_once(file, octets, files.PUBLIC)
