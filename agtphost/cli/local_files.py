"""Keys and documents in files on this machine that commands read and write."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

from agtphost.cli.failures import WrongInput, local_file
from agtphost.cli.output import print_json, print_note
from agtphost.cli.plain_files import MAX_BODY as MAX_BODY
from agtphost.cli.plain_files import output_option as output_option
from agtphost.cli.plain_files import read_octets as read_octets
from agtphost.cli.plain_files import write_new as write_new
from agtphost.identity.key_history import DIRECTORY, Succession, read_statement
from agtphost.identity.key_ring import KeyRing
from agtphost.identity.keys import KeyFormatError, SigningKey, VerifyingKey
from agtphost.vocabulary.foreign_errors import explain

SIGNING_KEY = "signing.pub"
"""Name of the current public key in a host's state directory."""


def deliver(octets: bytes, output: Path | None, agent_id: str, as_json: bool) -> None:
    """
    Write a document with exactly these bytes, because hashes and signatures cover them.

    Standard output gets only the document; the Agent-ID goes to standard error.

    :param as_json: print the file name and the Agent-ID as JSON.
    :raises agtphost.cli.failures.CommandError: the file exists or cannot be written.
    """
    if output is None:
        sys.stdout.buffer.write(octets)
        sys.stdout.buffer.flush()
        print_note(f"agent_id {agent_id}")
        return
    write_new(output, octets)
    if as_json:
        print_json({"agent_id": agent_id, "file": str(output)})
    else:
        print_note(f"wrote {output}")
        print_note(f"agent_id {agent_id}")


# Keys


def load_signing_key(path: Path) -> SigningKey:
    """
    Load a private key file.

    :raises agtphost.cli.failures.CommandError: the file is not a private key; the message names it.
    """
    with local_file(path, KeyFormatError, remedy="Create one with `agtp key new FILE`."):
        return SigningKey.load(path)


def load_verifying_key(path: Path) -> VerifyingKey:
    """
    Load a public key file, or the public half of a private key file.

    :raises agtphost.cli.failures.CommandError: the file is not a key; the message names it.
    """
    with local_file(path, KeyFormatError):
        if b"PRIVATE KEY" in path.read_bytes():
            return SigningKey.load(path).public
        return VerifyingKey.load(path)


def given_keys(paths: Iterable[Path]) -> KeyRing:
    """
    Return all public keys of a host in some files and directories, with the times of their retirement if stated.

    :param paths: public key files, directories of a host's keys, or its state directory.
    :raises agtphost.cli.failures.CommandError: a path cannot be read or has no key; the message names it.
    """
    keys: list[VerifyingKey] = []
    links: list[Succession] = []
    for path in paths:
        if not path.is_dir():
            keys.append(load_verifying_key(path))
            continue
        folder = path / DIRECTORY if (path / DIRECTORY).is_dir() else path
        present = [path / SIGNING_KEY] if (path / SIGNING_KEY).is_file() else []
        found = [*sorted(folder.glob("*.pub"))] if folder != path or not present else []
        stated = [_statement(file) for file in sorted(folder.glob("*.json"))] if found else []
        if not present and not found:
            raise WrongInput(
                f"{path} has no public key of a host", "Give the host's keys/ directory, or its signing.pub."
            )
        keys += [load_verifying_key(file) for file in (*present, *found)]
        keys += [key for link in stated for key in (link.old, link.new)]
        links += stated
    ring = KeyRing(keys)
    try:
        for link in links:
            ring.follow(link)
    except KeyFormatError as error:
        raise WrongInput(
            f"the statements of the key history disagree: {error}",
            "Get the host's keys/ directory again from its operator.",
        ) from None
    return ring


def _statement(file: Path) -> Succession:
    try:
        return read_statement(json.loads(read_octets(file)))
    except ValueError as error:
        raise WrongInput(
            f"{file} is not a statement of two keys: {explain(error)}", "Get it again from the host's operator."
        ) from error
