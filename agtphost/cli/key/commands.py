"""The ``agtp key`` group: create and show Ed25519 signing keys."""

from __future__ import annotations

from pathlib import Path

import click

from agtphost.cli.failures import WrongInput, local_file
from agtphost.cli.groups import VerbGroup
from agtphost.cli.key.rotate import history_command, rotate_command
from agtphost.cli.local_files import load_verifying_key
from agtphost.cli.options import EXISTING, json_option
from agtphost.cli.output import print_answer
from agtphost.identity.keys import SigningKey, VerifyingKey


@click.group(cls=VerbGroup)
def command() -> None:
    """
    Create, show and rotate signing keys (Ed25519).

    Hosts sign records with them, registrars sign Genesis documents with them, and agents connect with them.
    """


def _describe(key: VerifyingKey, as_json: bool, **files: str) -> None:
    print_answer({"kid": key.kid, "fingerprint": key.fingerprint, "public_key": key.text, **files}, as_json)


@command.command()
@click.argument("file", type=EXISTING)
@json_option
def new(file: Path, as_json: bool) -> None:
    """
    Create a key.

    Only the owner can read FILE; the public half is written to the same directory, with the suffix .pub.

    \b
    Example:
      agtp key new registrar.key
    """
    public = file.with_suffix(".pub")
    if public == file:
        raise WrongInput("the file of a private key cannot end in .pub")
    for path in (file, public):
        if path.exists():
            raise WrongInput(f"{path} exists", "Keys are never overwritten: choose another name, or move the file.")
    key = SigningKey.generate()
    with local_file(file, doing="written"):
        key.save(file)
        key.public.save(public)
    _describe(key.public, as_json, private_file=str(file), public_file=str(public))


@command.command()
@click.argument("file", type=EXISTING)
@json_option
def show(file: Path, as_json: bool) -> None:
    """
    Show the public half and the fingerprint of a key file.

    \b
    Example:
      agtp key show state/signing.pub
    """
    _describe(load_verifying_key(file), as_json)


command.add_command(rotate_command)
command.add_command(history_command)
