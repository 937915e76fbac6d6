"""
Cures for faults of ``host.toml`` that the check itself has none for.

A cure is a line to write, or a key to leave out. Each proposal is tried: it is put into a copy of the file's tables,
and these are validated again. So what is proposed works as it is written.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import tomllib
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Union

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from agtphost.config.faults import ConfigFault, field_at
from agtphost.config.launch_script import likely_servers
from agtphost.config.secret import Secret
from agtphost.identity.peer import Assurance
from agtphost.vocabulary.tomlparser import copy_tree
from agtphost.vocabulary.tomltext import Location, key_text, value_text

Trial = Callable[[dict[str, Any]], Sequence[ConfigFault]]
"""Returns the faults that a file with these tables would have."""

_ABSENT = object()

_EXAMPLES: Mapping[str, Sequence[Any]] = {
    "operator": ["Example Ltd"],
    "contact": ["ops@example.com"],
    "server_id": ["agents.example.com"],
    "state_dir": ["state"],
    "description": ["What this is."],
    "agent": ["demo"],
    "agents": ["agents"],
    "directory": ["endpoints"],
    "python_path": [["."]],
    "formats": [["json"]],
    "address": ["127.0.0.1"],
    "listen": ["tcp:4490:interface=127.0.0.1", "ssl:4490:interface=127.0.0.1"],
    "method": ["QUERY"],
    "from_method": ["LOOKUP"],
    "to_method": ["QUERY"],
    "from_path": ["/old"],
    "to_path": ["/new"],
    "by": [["operators"]],
    "zone": ["zone:example"],
    "allow": [["QUERY"]],
    "port": [4480],
    "endpoint": ["tcp:4480:interface=127.0.0.1"],
    "call": ["files.*"],
    "through": ["NOTIFY /message"],
}
"""Values by key, where any text would do but a reader should see what is meant."""

_TEXTS: Sequence[str] = (
    "example",
    "NAME",
    "example-2",
    "https://example.com/",
    "https://example.com",
    "agtp://example.com",
    "example.com",
    "agents.example.com",
    "127.0.0.1",
    "127.0.0.0/8",
    "documents:query",
    "QUERY",
    "/example",
    "0" * 64,
    "tcp:4490:interface=127.0.0.1",
    "ssl:4490:interface=127.0.0.1",
    "file:///srv/example",
    "ops@example.com",
    "EUR",
    "1.0",
    "tokens=500",
    "*",
    "sqlite:",
    "x-example",
    "application/json",
    "HTTP:example.com",
)
"""Texts of the forms that keys have, from the least to the most particular."""

_OF_URLS = frozenset({"endpoint", "origin"})
"""Further keys that take URLs."""

_NEEDED_SECRETS = frozenset({"token"})
"""Secrets without which a table is incomplete."""

_NAMING = frozenset({"port"})
"""Keys whose numbers name something. The bound that is nearest to a wrong one is no better than any other number."""

_WRITTEN = re.compile(r"write (\S+) = (.+)", re.DOTALL)
"""A hint that is a line."""

_SOUND = 2
_OTHER = re.compile("[^a-z0-9]+", re.ASCII)
"""What names of the most particular form do not have."""

_LITERAL = re.compile(r"\b(?:write|such as|remove|leave|run|did you mean|move|save)\b")
"""What hints have that say what to type."""

_VARIABLE = re.compile(r"names the environment variable (\w+), which is ")
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?", re.ASCII)
_SIZE = re.compile(r"([0-9]{1,9}) ?([KMG]|[kmg](?=i?[bB]))i?[bB]?", re.ASCII)
"""Octets; "5m" may be minutes."""

_LONGEST = 60
"""Characters of a text of the file that is shown in another form."""

_MOST_TRIALS = 400
"""Proposals for one file that are tried; each takes about 2 ms."""


class CureFinder:
    """
    Finds cures for the faults of one file.

    :param model: the class of the file.
    :param tree: its tables.
    :param folder: its directory.
    :param trial: None if proposals cannot be tried.
    :param faults: what ``trial`` returns for the tables as they are.
    """

    def __init__(
        self,
        model: type[BaseModel],
        tree: dict[str, Any],
        folder: Path,
        trial: Trial | None = None,
        faults: Iterable[ConfigFault] = (),
    ) -> None:
        self._model = model
        self._tree = tree
        self._folder = folder
        self._trial = trial
        self._known = {(each.location, each.message) for each in faults}
        self._tried = 0

    def complete(self, fault: ConfigFault) -> str:
        """Return what to do about a fault: its own hint if that works, or a line to write instead or as well."""
        at = _key_of(fault)
        written = _WRITTEN.fullmatch(fault.hint)
        if not fault.hint or (written is not None and at and at[-1] in _NAMING):
            return self.find(fault) or fault.hint
        if written is not None and at and written[1] == key_text(str(at[-1])) and self._trial is not None:
            with contextlib.suppress(tomllib.TOMLDecodeError):
                if not self._try(at, tomllib.loads(f"value = {written[2]}")["value"]):
                    return self._find_tried(fault) or _suggest_untried(
                        str(at[-1]), field_at(self._model, at), _is_missing(fault)
                    )
        if _LITERAL.search(fault.hint) is not None:
            return fault.hint
        tried = self._find_tried(fault)
        return f"{fault.hint}: {tried}" if tried else fault.hint

    def find(self, fault: ConfigFault) -> str:
        """Return what to do about a fault; empty if it names no key."""
        at = _key_of(fault)
        if not at:
            return ""
        field = field_at(self._model, at)
        if _is_table(_value_at(self._tree, at)):
            return "remove this entry with its keys" if isinstance(fault.location[-1], int) else "correct its keys"
        variable = _VARIABLE.match(fault.message)
        if variable is not None:
            rest = "" if at[-1] in _NEEDED_SECRETS else f", or leave {at[-1]} out"
            return f"set the variable {variable[1]} for the host{rest}"
        return self._find_tried(fault) or _suggest_untried(str(at[-1]), field, _is_missing(fault))

    def _find_tried(self, fault: ConfigFault) -> str:
        """Return a cure that works; empty if none is known."""
        at = _key_of(fault)
        if not at or _is_table(_value_at(self._tree, at)):
            return ""
        key, field = str(at[-1]), field_at(self._model, at)
        annotation, absent = Any if field is None else field.annotation, _is_missing(fault)
        secret = _holds_secret(annotation)
        second = ""
        """A cure after which something else is to be corrected."""

        corrected = () if secret else _corrected_lists(_value_at(self._tree, at), fault.message)
        proposals = self._proposals(fault.location[len(at) :], at, field, absent=absent, secret=secret)
        for value in itertools.chain(corrected, proposals):
            shown = _shown_default(field)
            if value is _ABSENT:
                cure = f"leave {key} out for the default, {shown}" if shown else f"leave {key} out"
            else:
                cure = f"write {key_text(key)} = {value_text(value)}"
            found = self._try(at, value)
            if found == _SOUND:
                return cure
            second = second or (cure if found else "")
        return second

    def _proposals(
        self, faulty: Location, at: Location, field: FieldInfo | None, *, absent: bool, secret: bool
    ) -> Iterator[Any]:
        """Yield what to write in place of a value, the likeliest first."""
        if not secret:
            yield from self._conversions(faulty, at)
        if not absent and _shown_default(field):
            yield _ABSENT
        if not secret:
            yield from self._examples(at, field)
        if not absent and not secret and (field is None or not field.is_required()):
            yield _ABSENT

    def _try(self, at: Location, value: Any) -> int:
        """
        Try a value for a key, or none.

        :return: 0 if the key remains faulty, 1 if something else becomes faulty, and :data:`_SOUND` if nothing does.
        """
        if self._trial is None or self._tried >= _MOST_TRIALS:
            return 0
        self._tried += 1
        changed = copy_tree(self._tree)
        if not _replace(changed, at, value):
            return 0
        left = self._trial(changed)
        if any(each.location[: len(at)] == at or (*each.location, each.missing) == at for each in left):
            return 0
        return 1 if any((each.location, each.message) not in self._known for each in left) else _SOUND

    def _conversions(self, faulty: Location, at: Location) -> Iterator[Any]:
        """
        Yield forms of the given value that a key may take.

        :param faulty: the place in the value that is at fault.
        """
        given = _value_at(self._tree, at)
        if isinstance(given, list):
            rest = [each for index, each in enumerate(given) if index not in faulty[:1]]
            if faulty and rest and all(isinstance(each, (str, int, float)) for each in rest):
                yield rest
            if len(given) == 1 and isinstance(given[0], str) and len(given[0]) <= _LONGEST:
                yield ["/".join(given[0].split("/")[:3])]  # An origin, of a URL with a path.
                yield given[0]
        elif isinstance(given, str) and 0 < len(given) <= _LONGEST:
            number, size = _NUMBER.match(given), _SIZE.fullmatch(given)
            if size is not None:
                yield int(size[1]) << 10 * ("KMG".index(size[2].upper()) + 1)
            elif number is not None:
                yield float(number[0]) if "." in number[0] else int(number[0])
            yield [given]
            scheme, _, address = given.rpartition("://")
            if scheme:
                yield address.partition("/")[0]
            if scheme in ("", "http") and ("url" in str(at[-1]) or at[-1] in _OF_URLS):
                yield f"https://{address}"
            if at[-1] == "name" and (slug := _OTHER.sub("-", given.lower()).strip("-")):
                yield slug[:32]

    def _examples(self, at: Location, field: FieldInfo | None) -> Iterator[Any]:
        """Yield values of a key's form, the likeliest first."""
        yield from _EXAMPLES.get(str(at[-1]), ())
        if at[-1] == "command":
            yield from (["{python}", script] for script in likely_servers(self._folder))
        default = None if field is None else field.default
        if isinstance(default, (bool, int, float)):
            yield default
        yield from _values(Any if field is None else field.annotation, () if field is None else field.metadata)


def _corrected_lists(given: Any, message: str) -> Iterator[Any]:
    """Yield a list without its mistake, where a message says which entry that is: "holds 'search', which ..."."""
    held = re.search(r"holds '([^']*)'", message)
    if held is None or not isinstance(given, list) or held[1] not in given:
        return
    meant = re.search(r"did you mean '([^']*)'", message)
    for entry in (meant[1] if meant else "", held[1].upper()):
        if entry and entry not in given:
            yield [entry if each == held[1] else each for each in given]
    if rest := [each for each in given if each != held[1]]:
        yield rest


def _key_of(fault: ConfigFault) -> Location:
    """Return the location of the innermost key that a fault is about."""
    location = (*fault.location, fault.missing) if fault.missing else fault.location
    return location[: max((index for index, step in enumerate(location, 1) if isinstance(step, str)), default=0)]


def _is_missing(fault: ConfigFault) -> bool:
    return bool(fault.missing) or fault.message.startswith("is missing")


def _is_table(value: Any) -> bool:
    """Return whether a value is a table of the file, or a list of tables, of which no line is written anew."""
    return (isinstance(value, dict) and bool(value)) or (
        isinstance(value, list) and any(isinstance(each, dict) for each in value)
    )


def _shown_default(field: FieldInfo | None) -> str:
    """Return the default of a key as a reader knows it; empty if it says nothing."""
    default = None if field is None else field.default
    if isinstance(default, bool):
        return "true" if default else "false"
    if isinstance(default, (int, float)):
        return str(default)
    return default if isinstance(default, str) and default.isascii() and 0 < len(default) < 40 else ""


def _suggest_untried(key: str, field: FieldInfo | None, absent: bool) -> str:
    """Return the hint of last resort, for values that only the operator can know."""
    annotation = None if field is None else field.annotation
    if _is_mapping(annotation):
        return f'write {key} = {{ NAME = "value" }}, or leave {key} out'
    if _holds_secret(annotation):
        rest = "" if key in _NEEDED_SECRETS else f", or leave {key} out"
        return f'write {key} = "env:{key.upper()}" and set that variable for the host{rest}'
    sample = '["..."]' if typing.get_origin(annotation) is tuple else '"..."'
    if absent or (field is not None and field.is_required()):
        return f"write {key} = {sample}"
    if (shown := _shown_default(field)) != "":
        return f"leave {key} out for the default, {shown}"
    return f"leave {key} out, or write {key} = {sample}"


def _value_at(tree: Any, at: Location) -> Any:
    for step in at:
        inside = isinstance(tree, Mapping) and step in tree
        if not inside and not (isinstance(tree, list) and isinstance(step, int) and step < len(tree)):
            return None
        tree = tree[step]
    return tree


def _replace(tree: dict[str, Any], at: Location, value: Any) -> bool:
    """Set or delete a value in place; return whether there is such a place."""
    table = _value_at(tree, at[:-1])
    if not isinstance(table, dict):
        return False
    if value is _ABSENT:
        return table.pop(at[-1], _ABSENT) is not _ABSENT
    table[at[-1]] = value
    return True


def _is_mapping(annotation: Any) -> bool:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _is_mapping(arguments[0])
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _holds_secret(annotation: Any) -> bool:
    return annotation is Secret or any(map(_holds_secret, typing.get_args(annotation)))


def _values(annotation: Any, metadata: Sequence[Any]) -> Iterator[Any]:
    """Yield values of a type, the likeliest first."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        yield from _values(arguments[0], (*arguments[1:], *metadata))
    elif origin is Literal:
        yield from arguments
    elif origin is tuple:
        for value in _values(arguments[0], ()):
            yield [value]
        yield []
    elif annotation is bool:
        yield from (True, False)
    elif annotation in (int, float):
        yield from _numbers(metadata)
    elif annotation is Assurance:
        # The strictest is the safe proposal.
        yield from (level.label for level in sorted(Assurance, reverse=True))
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        yield {}
    elif origin is Union or arguments:
        for argument in arguments:
            if argument is not type(None):
                yield from _values(argument, metadata)
    else:
        yield from _TEXTS


def _numbers(metadata: Sequence[Any]) -> Iterator[int]:
    """Yield numbers within the bounds of a key."""
    bounds = [
        getattr(part, name)
        for each in metadata
        for part in (each, *getattr(each, "metadata", ()))
        for name in ("ge", "le", "gt", "lt")
        if getattr(part, name, None) is not None
    ]
    yield from (30, 10, 1, *(int(bound) for bound in bounds), 0, 4490)
