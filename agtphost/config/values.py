"""The kinds of values that sections are made of, and how each is read from what the file says."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationInfo,
)

from agtphost.config import secret
from agtphost.config.secret import Secret
from agtphost.identity.peer import Assurance
from agtphost.vocabulary import scopes
from agtphost.vocabulary.foreign_errors import split
from agtphost.vocabulary.identifiers import is_agent_id
from agtphost.vocabulary.regular_files import Stamp, stamps

T = TypeVar("T")
K = TypeVar("K")

Text = BeforeValidator(secret.text_of)
"""Before :func:`form`: a text that may not be a secret."""


@dataclass(frozen=True, kw_only=True)
class LoadContext:
    """The context in which values are validated; pydantic carries it as the validation context."""

    folder: Path
    """The TOML file's directory, absolute."""

    state_dir: Path
    """Absolute, the environment's override applied."""

    environ: Mapping[str, str]
    written_state_dir: Path | None = None
    """The state directory that the file says, where the environment names another."""

    files: dict[Path, Stamp] = field(default_factory=dict)
    """Files that values were read from, each as it was before it was read."""

    def note_file(self, path: Path) -> Path:
        """Note a file that a value is about to be read from, and return it."""
        self.files.update((each, stamp) for each, stamp in stamps([path]).items() if each not in self.files)
        return path


def load_context(info: ValidationInfo) -> LoadContext:
    """Return the context of a validator; a section made in code has the working directory, and an empty environment."""
    if info.context is None:
        return LoadContext(folder=Path.cwd(), state_dir=Path.cwd() / "state", environ={})
    assert isinstance(info.context, LoadContext)
    return info.context


class Section(BaseModel):
    """A table of the file: unknown keys are errors, types are exact, values are frozen."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        arbitrary_types_allowed=True,
        hide_input_in_errors=True,
    )


_LONGEST_NAME, _LONGEST_PATH = 255, 4095
"""Octets of a name and of a path, in file systems of Linux."""


class _StateFile(str):
    """A default below the state directory."""


def _path(value: Any, info: ValidationInfo) -> Path:
    if isinstance(value, Path):
        return value
    text = secret.text_of(value)
    if "\0" in text:
        raise ValueError("must be a path")
    context = load_context(info)
    if text.startswith(secret.CREDENTIAL):
        return secret.credential(text, context.environ)
    folder = context.state_dir if isinstance(value, _StateFile) else context.folder
    try:
        path = folder / Path(text).expanduser()
    except RuntimeError:
        raise ValueError(
            f"begins with {text.partition('/')[0][:40]}, but this machine has no user of that name"
        ) from None
    if not isinstance(value, _StateFile) and _is_too_long(path):
        raise ValueError(f"is longer than a path can be: {_LONGEST_NAME} octets a name, {_LONGEST_PATH} in all")
    return path


def read_path(value: Any, info: ValidationInfo) -> Path:
    """
    Return a path of the file, for values that may also be something else.

    A path below the state directory that the file says is below the one that the environment names in its place.
    """
    path, context = _path(value, info), load_context(info)
    written = context.written_state_dir
    return context.state_dir / path.relative_to(written) if written and path.is_relative_to(written) else path


def can_be_path(folder: Path, text: str) -> bool:
    """Return whether a text names a path, which need not be there."""
    try:
        return "\0" not in text and not _is_too_long(folder / Path(text).expanduser())
    except RuntimeError:  # There is no such user.
        return False


def _is_too_long(path: Path) -> bool:
    octets = [len(os.fsencode(part)) for part in path.parts]
    return max(octets, default=0) > _LONGEST_NAME or sum(octets) + len(octets) > _LONGEST_PATH


def _state_dir(value: Any, info: ValidationInfo) -> Path:
    _path(value, info)
    context = load_context(info)
    return context.state_dir


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _freeze(value: Mapping[K, T]) -> Mapping[K, T]:
    return MappingProxyType(dict(value))


def form(grammar: str | Callable[[str], object], otherwise: str) -> AfterValidator:
    """
    Holds a text to a form.

    :param grammar: a regular expression for all of it, or what says whether it is of the form.
    :param otherwise: the error; ``{}`` is replaced by the beginning of the text.
    """
    holds = re.compile(grammar, re.ASCII).fullmatch if isinstance(grammar, str) else grammar

    def check(value: str) -> str:
        if not holds(value):
            raise ValueError(otherwise.replace("{}", repr(value[:64])))
        return value

    return AfterValidator(check)


def _line(value: str) -> str:
    if not value.isprintable() or len(value) > 256:
        raise ValueError("must be one line of at most 256 printable characters")
    return value


def _network(value: Any) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    if isinstance(value, (ipaddress.IPv4Network, ipaddress.IPv6Network)):
        return value
    try:
        return ipaddress.ip_network(secret.text_of(value))
    except ValueError as error:
        raise ValueError(f"is not an address range such as 127.0.0.0/8: {split(error)[0]}") from error


def _assurance(value: Any) -> Assurance:
    if isinstance(value, Assurance):
        return value
    names = [level.label for level in Assurance]
    if value not in names:
        raise ValueError(f"must be one of {', '.join(names)}")
    return Assurance[str(value).upper()]


def _optional_secret(value: Any, info: ValidationInfo) -> Secret:
    """
    Read a value that may be a secret or an ordinary text, such as an environment variable; all are kept as secrets.
    """
    if isinstance(value, Secret):
        return value
    context = load_context(info)
    resolved = secret.resolve(secret.text_of(value), context.environ, context.folder, context.note_file)
    if "\0" in resolved.reveal():
        raise ValueError("contains a NUL character")
    return resolved


def _header_value(value: Any, info: ValidationInfo) -> Secret:
    resolved = _optional_secret(value, info)
    if not resolved.reveal().isascii() or not resolved.reveal().isprintable():
        raise ValueError("contains characters that a header field cannot carry")
    return resolved


def _require_reference(value: Any) -> None:
    if not isinstance(value, Secret) and not secret.is_reference(secret.text_of(value)):
        raise ValueError(
            "is a secret written into the file; write ${VAR}, env:NAME, file:PATH or credential:NAME instead"
        )


def read_secret(value: Any, info: ValidationInfo) -> Secret:
    """Read a value that is always a secret, and so must not be written into the file itself."""
    _require_reference(value)
    return _header_value(value, info)


def _password(value: Any, info: ValidationInfo) -> Secret:
    """Read a secret that no header field carries."""
    _require_reference(value)
    return _optional_secret(value, info)


FilePath = Annotated[Path, BeforeValidator(_path)]
"""A path, relative to the TOML file, or ``credential:NAME``."""

StateDirectory = Annotated[Path, BeforeValidator(_state_dir)]
Items = Annotated[tuple[T, ...], BeforeValidator(_as_tuple)]
"""A list of the file, frozen."""

Table = Annotated[Mapping[K, T], AfterValidator(_freeze), PlainSerializer(dict)]
"""A table with names of the operator's choice, frozen."""

Line = Annotated[str, AfterValidator(_line)]
Token = Annotated[str, form(r"[\x21-\x7e]{1,253}", "must be 1 to 253 visible ASCII characters without spaces")]
ServerId = Annotated[
    Token, form("[^/]+", "is {}, and URIs have it as their authority: write it without a scheme and without a path")
]
Method = Annotated[str, form("[A-Z]{3,32}", "holds {}, which is not a method name (3 to 32 letters A-Z)")]
Scope = Annotated[
    str, form(scopes.is_token, "holds {}, which is not a scope token (lower-case segments joined by ':')")
]
Fingerprint = Annotated[
    str,
    form(
        is_agent_id,
        "must be a key fingerprint: 64 lower-case hexadecimal digits, as `agtp cert show FILE` prints it",
    ),
]
Digest = Annotated[str, Text, form("[0-9a-f]{64}", "must be a SHA-256: 64 lower-case hexadecimal digits")]
CanonicalAgentID = Annotated[Line, form(is_agent_id, "must be a canonical Agent-ID: 64 lower-case hexadecimal digits")]
Network = Annotated[ipaddress.IPv4Network | ipaddress.IPv6Network, BeforeValidator(_network)]
MinAssurance = Annotated[Assurance, BeforeValidator(_assurance)]
InlineOrSecret = Annotated[Secret, BeforeValidator(_optional_secret)]
HeaderValue = Annotated[Secret, BeforeValidator(_header_value)]
Password = Annotated[Secret, BeforeValidator(_password)]
SecretReference = Annotated[Secret, BeforeValidator(read_secret)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Count = Annotated[int, Field(ge=1, le=10_000_000)]


def in_state(name: str) -> Any:
    """Return a field that is by default a path below the state directory."""
    return Field(default=_StateFile(name), validate_default=True)


def beside_file() -> Any:
    """Return a field that is by default the directory of the TOML file."""
    return Field(default="", validate_default=True)


def absent() -> Any:
    """Return a field for a section that may be missing and whose defaults depend on its context."""
    return Field(default_factory=dict, validate_default=True)
