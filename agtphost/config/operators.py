"""``[[operator]]``: the people who run the host, each with a name, a key and a role."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, ValidationInfo

from agtphost.config.faults import ConfigFault
from agtphost.config.secret import text_of
from agtphost.config.values import Section, read_path
from agtphost.identity.keys import KeyFormatError, VerifyingKey
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.identifiers import is_agent_id

MOST_OPERATORS = 1_000
"""Entries of ``[[operator]]``: their names are labels of metrics."""

LONGEST_NAME = 64

RECORDED = "sha256:"
"""How a key begins as records have it: the SHA-256 of its SubjectPublicKeyInfo."""


def _name(value: str) -> str:
    plain = all(unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") for char in value)
    if not plain or not value.strip() or value != value.strip() or len(value) > LONGEST_NAME:
        raise ValueError(f"must be 1 to {LONGEST_NAME} visible characters of one line, without spaces at its ends")
    return unicodedata.normalize("NFC", value)


def _key(value: Any, info: ValidationInfo) -> str | Path:
    text = value if isinstance(value, Path) else text_of(value)
    if isinstance(text, Path) or not text:
        if not text:
            raise ValueError("must be a key fingerprint, or the path of a certificate or public key")
        return text
    if is_agent_id(text):
        return text
    if text.startswith(RECORDED):
        if not is_agent_id(text.removeprefix(RECORDED)):
            raise ValueError(f"must have 64 lower-case hexadecimal digits after {RECORDED}")
        return text
    return read_path(text, info)


class OperatorSection(Section):
    """An entry of ``[[operator]]``: a person who runs the host, or a program that acts for the people who do."""

    name: Annotated[str, AfterValidator(_name)]
    """What records, lists and metrics call the operator."""

    key: Annotated[str | Path, BeforeValidator(_key)]
    """
    The operator's Ed25519 key: its fingerprint, as ``agtp cert show FILE`` prints it; ``sha256:`` and 64 digits, as
    records have it; or the path of a certificate or public key in PEM.
    """

    role: Literal["viewer", "approver", "administrator"]
    """
    ``viewer`` reads what operators see; ``approver`` also decides approvals and escalations, and replies;
    ``administrator`` also reloads the configuration, revokes agents, grants, and changes the registry.
    """

    def load(self) -> VerifyingKey | None:
        """
        Return the key of a file; None where the file says its fingerprint.

        :raises KeyFormatError: the file has no Ed25519 key.
        :raises OSError: it cannot be read.
        """
        return VerifyingKey.load(self.key) if isinstance(self.key, Path) else None


def fingerprints_of(operators: Sequence[OperatorSection]) -> frozenset[str] | None:
    """
    Return the fingerprints of all keys whose files are there; None where a key is listed by another digest.

    A key whose file the host has still to make is one that no other setting can name.
    """
    found = set()
    for each in operators:
        try:
            key = each.load()
        except (KeyFormatError, OSError):
            continue
        if key is None and str(each.key).startswith(RECORDED):
            return None
        found.add(str(each.key) if key is None else key.fingerprint)
    return frozenset(found)


REGISTRAR: Final = "registrar.pem"
"""The certificate below the state directory that a development host makes at its first start."""


def operator_faults(operators: Sequence[OperatorSection], state: Path, *, makes: bool) -> Iterator[ConfigFault]:
    """
    Check rules that span entries of ``[[operator]]``, and the files that they name.

    :param state: the state directory.
    :param makes: whether the first start makes the registrar's certificate there, as a development host does.
    """
    made = state / REGISTRAR
    if len(operators) > MOST_OPERATORS:
        yield ConfigFault(location=("operator",), message=f"has more than {MOST_OPERATORS} entries")
    names: dict[str, int] = {}
    keys: dict[str, int] = {}
    for number, each in enumerate(operators):
        named = each.name.casefold()
        if named in names:
            yield ConfigFault(
                location=("operator", number, "name"),
                message=f"is the name of another operator: {each.name}",
                hint="give each operator a name",
                beside=("operator", names[named], "name"),
            )
        names.setdefault(named, number)
        try:
            loaded = each.load()
        except FileNotFoundError:
            registrars = Path(each.key) == made
            if not (makes and registrars):
                cure = "write the fingerprint that `agtp cert show FILE` prints"
                if makes and any(str(other.key) == str(made) for other in operators):
                    cure = f"run `agtp cert issue client {each.name} --ca {state}/ca.pem -o {each.key}`; or {cure}"
                elif makes:
                    cure = f'write key = "{made}", which the first start makes; or {cure[6:]}'
                yield ConfigFault(
                    location=("operator", number, "key"),
                    message=f"names a file that does not exist: {os.fspath(each.key)}",
                    hint=cure,
                    # With a faulty profile it is unknown whether the first start makes the file.
                    concerns=(("host", "profile"),) if registrars else (),
                )
            continue
        except (KeyFormatError, OSError) as error:
            yield ConfigFault(
                location=("operator", number, "key"),
                message=f"cannot be used: {explain(error)}",
                hint="name a certificate or public key in PEM with an Ed25519 key",
            )
            continue
        key = str(each.key) if loaded is None else loaded.fingerprint
        if key in keys:
            yield ConfigFault(
                location=("operator", number, "key"),
                message=f"is the key of another operator: {operators[keys[key]].name}",
                hint="give each operator a separate key; one key has one role",
                beside=("operator", keys[key], "key"),
            )
        keys.setdefault(key, number)
