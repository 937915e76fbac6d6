"""Files on this machine as octets: read, and written once. Commands that need no keys import nothing more."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from agtphost.cli.failures import WrongInput, local_file
from agtphost.identity import files

MAX_BODY = 67_108_864
"""Octets read from a file or standard input."""

output_option = click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Default: standard output."
)


def read_octets(name: str | Path) -> bytes:
    """The octets of a file; ``-`` is standard input."""
    with local_file(name):
        if str(name) == "-":
            octets = sys.stdin.buffer.read(MAX_BODY + 1)
        else:
            with Path(name).open("rb") as stream:
                octets = stream.read(MAX_BODY + 1)
    if len(octets) > MAX_BODY:
        raise WrongInput(f"{name} has more than {MAX_BODY} octets")
    return octets


def write_new(file: Path, octets: bytes) -> None:
    """Write a file that anybody may read. :raises WrongInput: if it exists already or cannot be written."""
    with local_file(file, doing="written"):
        files.write_once(file, octets, files.PUBLIC)
