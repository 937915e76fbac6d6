"""The public keys of a host that a command is given: files, and directories with the history of its keys."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from agtphost.cli.failures import WrongInput
from agtphost.cli.key.commands import load_verifying_key
from agtphost.identity.key_history import DIRECTORY, Succession, read_statement
from agtphost.identity.key_ring import KeyRing
from agtphost.identity.keys import KeyFormatError, VerifyingKey

SIGNING_KEY = "signing.pub"
"""The present key in a host's state directory."""


def given_keys(paths: Iterable[Path]) -> KeyRing:
    """
    All keys of some files and directories, with the ends of their use where a statement says so.

    :param paths: public keys; directories as a host keeps them, and its state directory.
    :raises CommandError: naming what cannot be read, and what has no key in it.
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
            raise WrongInput(f"{path} has no public key of a host in it", "Name its keys/, or its signing.pub.")
        keys += [load_verifying_key(file) for file in (*present, *found)]
        keys += [key for link in stated for key in (link.old, link.new)]
        links += stated
    ring = KeyRing(keys)
    try:
        for link in links:
            ring.follow(link)
    except KeyFormatError as error:
        raise WrongInput(f"the history of keys contradicts itself: {error}") from None
    return ring


def _statement(file: Path) -> Succession:
    try:
        return read_statement(json.loads(file.read_bytes()))
    except OSError as error:
        raise WrongInput(f"{file} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise WrongInput(f"{file} is no statement of two keys: {error}") from None
