"""
Values that never show themselves: security invariant 14, "secrets go inward only".

A secret is written ``${VAR}`` (also inside a longer text), ``env:NAME``,
``file:PATH`` or ``credential:NAME``, and read when the configuration is. A
credential is a file that the service manager hands over (``LoadCredential=``).
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from agtphost.vocabulary.foreign_errors import split

MAX_SECRET = 65_536
"""Octets of a secret's file: larger ones are a mistake in the path."""

CREDENTIAL = "credential:"

CREDENTIALS = "CREDENTIALS_DIRECTORY"
"""The variable by which systemd says where credentials are."""

_CREDENTIAL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,254}", re.ASCII)

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class Secret:
    """
    A value that is ``***`` wherever it is printed.

    :param value: what :meth:`reveal` returns.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the secret itself, for the one place that sends it."""
        return self._value

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    def __format__(self, specification: str) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled")


def is_reference(text: str) -> bool:
    """Return whether ``text`` names a secret rather than containing one."""
    return text.startswith(("env:", "file:", CREDENTIAL)) or _VARIABLE.search(text) is not None


def resolve(
    text: str, environ: Mapping[str, str], folder: Path, note: Callable[[Path], object] = lambda path: None
) -> Secret:
    """
    Read what ``text`` names.

    :param folder: what a relative ``file:`` path is relative to.
    :param note: called with the file that is about to be read.
    :raises ValueError: naming the variable or file that cannot be read; never containing a value.
    """
    if text.startswith("env:"):
        name = text[4:]
        if _NAME.fullmatch(name) is None:
            raise ValueError("does not name an environment variable after env:")
        return Secret(_variable(name, environ))
    if text.startswith("file:"):
        return Secret(_file(folder / text[5:], note))
    if text.startswith(CREDENTIAL):
        return Secret(_file(credential(text, environ), note))
    return Secret(_VARIABLE.sub(lambda match: _variable(match.group(1), environ), text))


def _variable(name: str, environ: Mapping[str, str]) -> str:
    value = environ.get(name)
    if not value:
        state = "empty" if value == "" else "not set"
        raise ValueError(f"names the environment variable {name}, which is {state}")
    return value


def credential(text: str, environ: Mapping[str, str]) -> Path:
    """
    Return the file of ``credential:NAME``.

    :raises ValueError: the credential does not exist, or none were handed over.
    """
    name, folder = text.removeprefix(CREDENTIAL), environ.get(CREDENTIALS, "")
    if _CREDENTIAL.fullmatch(name) is None:
        raise ValueError("does not name a credential after credential:")
    if not folder:
        raise ValueError(
            f"names the credential {name}, and {CREDENTIALS} is not set, as systemd does for a unit with "
            f"LoadCredential={name}:PATH; elsewhere set it to a directory that has the file {name}"
        )
    return Path(folder) / name


def _file(path: Path, note: Callable[[Path], object]) -> str:
    note(path)
    try:
        with path.open("rb") as stream:
            octets = stream.read(MAX_SECRET + 1)
    except OSError as error:
        raise ValueError(f"names the file {path}, which cannot be read: {split(error)[0]}") from None
    if len(octets) > MAX_SECRET:
        raise ValueError(f"names the file {path}, which has more than {MAX_SECRET} octets")
    try:
        value = octets.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise ValueError(f"names the file {path}, which is not UTF-8") from None
    if not value:
        raise ValueError(f"names the file {path}, which is empty")
    return value


def text_of(value: Any) -> str:
    """``value`` if it is text. :raises ValueError: otherwise."""
    if not isinstance(value, str):
        raise ValueError("must be text")
    return value
