"""
Validation errors in the words of the file, and going on after them.

A reader that stops at the first error makes its operator run it ten times.
So every faulty key is taken out, noted, and the rest validated again, until
what remains is sound; then the checks that need several keys can run too.
"""

from __future__ import annotations

import contextlib
import difflib
import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, Union

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from agtphost.config.secret import Secret
from agtphost.config.values import LoadContext
from agtphost.vocabulary.foreign_errors import original_of
from agtphost.vocabulary.tomltext import Location

LATER = {
    "workers": "several workers",
}
"""Names the host will know one day: saying so is kinder than calling them misspelled."""

_NEEDS = {
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be a table",
    "mapping_type": "must be a table",
    "model_type": "must be a table",
    "model_attributes_type": "must be a table",
    "dataclass_type": "must be a table",
    "set_type": "must be a list",
    "frozen_set_type": "must be a list",
    "path_type": "must be text",
}
_BOUNDS = {
    "greater_than": ("must be more than {gt}", "gt"),
    "greater_than_equal": ("must be at least {ge}", "ge"),
    "less_than_equal": ("must be at most {le}", "le"),
}

_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?")

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, kw_only=True)
class ConfigFault:
    """A fault of a configuration, before it has a line."""

    location: Location
    message: str
    """A sentence without its subject: the key is named in front of it."""

    hint: str = ""
    missing: str = ""
    """The key that :attr:`location` lacks, if that is the fault."""

    concerns: tuple[Location, ...] = ()
    """Other keys that the fault was derived from; if one of them is faulty itself, the fault is dropped."""

    beside: Location | None = None
    """Another place that it contradicts, whose line is reported too."""

    original: str = ""
    """The text of a foreign library that the message translates; empty without one."""


def describe_absence(path: Path) -> str:
    """Return what is wrong with a path that should be a file and is none."""
    if path.is_dir():
        return f"names a directory, where a file is expected: {path}"
    return f"names a file that does not exist: {path}"


def admit(model: type[M], tree: dict[str, Any], context: LoadContext) -> tuple[M, list[ConfigFault], list[Location]]:
    """
    Validate ``tree``, taking out what is faulty.

    :param tree: the parsed document; changed.
    :return: the model of what remained, the faults, and the locations taken out.
    """
    faults: list[ConfigFault] = []
    removed: list[Location] = []
    while True:
        try:
            return model.model_validate(tree, context=context), faults, removed
        except ValidationError as error:
            found = [(_in_file(tree, details["loc"]), details) for details in error.errors(include_url=False)]
            if not all(location for location, _ in found):
                raise  # a fault that no key of the file explains is one of this package
            faults.extend(
                _fault(model, location, details, tree)
                for location, details in found
                # A key that an earlier pass removed is already reported.
                if details["type"] != "missing" or (*location, details["loc"][-1]) not in removed
            )
            removed.extend(_remove(tree, location) for location, _ in found)
            # What was meant by an unknown key is not known either, unless the file has that key as well.
            removed.extend(
                meant
                for location, details in found
                if details["type"] == "extra_forbidden"
                for meant in _find_meant(model, location, details.get("input"))
                if _in_file(tree, meant) != meant
            )


def _in_file(tree: Mapping[str, Any], location: Location) -> Location:
    """Return the part of a pydantic location that exists in the file: without marks such as ``[key]``."""
    found: list[str | int] = []
    here: Any = tree
    for step in location:
        inside = isinstance(here, Mapping) and step in here
        if not inside and not (isinstance(here, list) and isinstance(step, int) and step < len(here)):
            break
        found.append(step)
        here = here[step]
    return tuple(found)


def _remove(tree: dict[str, Any], location: Location) -> Location:
    """
    Take out the innermost table entry at ``location``: list elements go with
    their list, or the indices of the other errors would shift.
    """
    while location and isinstance(location[-1], int):
        location = location[:-1]
    here: Any = tree
    with contextlib.suppress(KeyError):  # another fault of this pass may have taken out what is around it
        for step in location[:-1]:
            here = here[step]
        del here[location[-1]]
    return location


def _fault(
    model: type[BaseModel], location: Location, details: Mapping[str, Any], tree: Mapping[str, Any]
) -> ConfigFault:
    if details["type"] == "extra_forbidden":
        return _unknown(model, location, details.get("input"), tree)
    if details["type"] == "missing":
        key = str(details["loc"][-1])
        return ConfigFault(location=location, message=f"{key} is missing", missing=key)
    found = describe_error(location, details)
    field = field_at(model, location)
    is_value = field is not None and next(models_of(field.annotation), None) is None
    # A value of the key's own form is proposed instead.
    unsuitable = found.hint.endswith('["..."]') or (is_value and found.hint.startswith("write ["))
    return replace(found, hint="") if unsuitable else found


def describe_error(location: Location, details: Mapping[str, Any]) -> ConfigFault:
    """
    Return the fault for one of pydantic's errors, except that of an unknown key.

    :param location: where it is in the file.
    :param details: as :meth:`pydantic.ValidationError.errors` has it.
    """
    kind, context = details["type"], details.get("ctx", {})
    if kind == "literal_error":
        return _literal(location, str(context["expected"]), details.get("input"))
    if kind in _BOUNDS:
        text, name = _BOUNDS[kind]
        bound = context[name]
        shown = int(bound) if bound == int(bound) else bound
        hint = f"write {location[-1]} = {shown}" if name in ("ge", "le") and isinstance(location[-1], str) else ""
        return ConfigFault(
            location=location, message=f"{text.format_map({name: shown})}, not {details['input']}", hint=hint
        )
    if kind == "value_error":
        message, original = str(context["error"]), original_of(context["error"])
        if message.startswith("must be ") and not {";", ","} & set(message):
            message += _describe_kind(details.get("input"))
        return ConfigFault(location=location, message=message, original=original)
    if kind in ("too_short", "too_long"):
        bound = "at least {min_length}" if kind == "too_short" else "at most {max_length}"
        message = f"must have {bound.format_map(context)} items, not {context['actual_length']}"
        return ConfigFault(location=location, message=message)
    if kind not in _NEEDS:
        return ConfigFault(location=location, message="has a value of the wrong form", original=details["msg"])
    shown, hint = _describe_wrong_type(location, kind, details.get("input"))
    return ConfigFault(location=location, message=f"{_NEEDS[kind]}{shown}", hint=hint)


_SCALARS = frozenset(
    {"int_type", "int_from_float", "float_type", "finite_number", "bool_type", "string_type", "path_type"}
)
"""Kinds of wrong values whose cure is the key with another value."""


def _describe_wrong_type(location: Location, kind: str, given: Any) -> tuple[str, str]:
    """
    Return a description of a value of the wrong type, and how to write it.

    Text is shown only where a number or true or false belongs: elsewhere it may be a secret.
    """
    key, said = str(location[-1]), f"{given!r}"[:60]
    path = ".".join(str(step) for step in location if isinstance(step, str))
    if isinstance(location[-1], int) and kind in _SCALARS:
        return _describe_kind(given), ""  # An element of a list: a list of the key's own form is proposed.
    if kind in ("int_type", "int_from_float", "float_type", "finite_number", "bool_type"):
        if isinstance(given, str):
            plain = given.strip().lower()
            fits = plain in ("true", "false") if kind == "bool_type" else _NUMBER.fullmatch(plain) is not None
            return f", not {said}", f"write {key} = {plain}" if fits else ""
        if isinstance(given, bool):
            return f", not {str(given).lower()}", ""
        return (f", not {said}" if isinstance(given, (int, float)) else ""), ""
    shown = _describe_kind(given)
    if kind in ("string_type", "path_type"):
        return shown, f'write {key} = "{str(given).lower()}"' if isinstance(given, (bool, int, float)) else ""
    if kind in ("tuple_type", "list_type", "set_type", "frozen_set_type"):
        if isinstance(given, dict):
            return "", f"write [[{path}]] in place of [{path}]"
        return shown, f'write {key} = ["..."]'
    if isinstance(given, list) and any(isinstance(each, dict) for each in given):
        return "", f"write [{path}] in place of [[{path}]]"
    header = f"[[{path}]]" if isinstance(location[-1], int) else f"[{path}]"
    return shown, f"write {header} instead of this line, above its keys" if not isinstance(given, dict) else ""


def _describe_kind(given: Any) -> str:
    """Return what a value is, as the end of a sentence; empty for text, which may be a secret."""
    if isinstance(given, str) or given is None:
        return ""
    if isinstance(given, (bool, int, float)):
        return f", not {str(given).lower()[:60]}"
    return (
        f", not {'a list' if isinstance(given, (list, tuple)) else 'a table' if isinstance(given, dict) else 'a date'}"
    )


def _literal(location: Location, expected: str, given: Any) -> ConfigFault:
    choices = [choice for choice in expected.replace(" or ", ", ").replace("'", "").split(", ") if choice]
    said = f"must be one of {', '.join(choices)}" if len(choices) > 1 else f"must be {choices[0]}"
    shown = f", not {given[:60]!r}" if isinstance(given, str) else ""
    if isinstance(given, bool):
        shown, key = f", not {str(given).lower()}", str(location[-1])
        hint = f'write {key} = "{choices[0]}"' if given else f"leave out {key}"
        return ConfigFault(location=location, message=f"{said}{shown}", hint=hint)
    close = difflib.get_close_matches(given, choices, 1) if isinstance(given, str) else []
    if not close and isinstance(given, str) and given:
        close = [choice for choice in choices if choice.startswith(given.lower())]  # "admin" for "administrator".
    hint = f'did you mean "{close[0]}"?' if close else ""
    return ConfigFault(location=location, message=f"{said}{shown}", hint=hint)


def field_at(model: type[BaseModel], location: Location) -> FieldInfo | None:
    """Return the declaration of the key that a location ends with; None where the operator chooses the names."""
    at = location[: max(index for index, step in enumerate(location) if isinstance(step, str))]
    inner = _model_at(model, at)
    return None if inner is None else inner.model_fields.get(next(str(s) for s in location[::-1] if isinstance(s, str)))


def _unknown(model: type[BaseModel], location: Location, given: Any, tree: Mapping[str, Any]) -> ConfigFault:
    name = str(location[-1])
    if name in LATER:
        return ConfigFault(
            location=location,
            message=f"is not supported by this version, which has no {LATER[name].removeprefix('the ')}",
            hint="remove it",
        )
    of_client = isinstance(given, dict) if len(location) == 1 else "command" in _keys_at(model, location[:-1])
    if name in _OF_CLIENTS and of_client:
        return ConfigFault(location=location, message="is unknown", hint=_OF_CLIENTS[name])
    if len(location) == 1 and name in _SECTIONS_MEANT and isinstance(given, dict):
        return ConfigFault(location=location, message="is unknown", hint=_SECTIONS_MEANT[name])
    meant = _closest_key(model, location)
    lengthened = bool(meant) and name.startswith(f"{meant}_")  # "agent_id" for "agent".
    is_meant = _is_near(name, meant) or (lengthened and _in_file(tree, at := (*location[:-1], meant)) != at)
    elsewhere = "" if is_meant else _elsewhere(model, location, given, tree)
    known = ", ".join(sorted(_keys_at(model, location[:-1])))
    hint = f'did you mean "{meant}"?' if meant else f"leave it out; known here: {known}"
    return ConfigFault(location=location, message="is unknown", hint=elsewhere or hint)


_OF_CLIENTS = {
    "mcpServers": "leave it out, and take an mcp.json of a client over with: agtp import FILE",
    "profile": "leave it out; profiles are in the client's own configuration: agtp docs client",
    "args": 'leave it out, and write the arguments into command, such as command = ["npx", "-y", "SERVER"]',
}
"""What to write for keys that MCP clients have in their configuration."""

_SECTIONS_MEANT = {
    "page": "write [admin], the section of the operators' page: agtp docs page",
    "operators": "write [[operator]] for each person: agtp docs operators",
}
"""What to write for names of sections that are close to no name, or to the name of a section of another meaning."""

_MISSPELLED = 0.8
"""How much an unknown key resembles the one that is meant, where nothing else is: one wrong letter of five."""


def _find_meant(model: type[BaseModel], location: Location, given: Any) -> Iterator[Location]:
    """Yield the keys that an unknown one may have been meant for: the closest of its table, and its own elsewhere."""
    if meant := _closest_key(model, location):
        yield (*location[:-1], meant)
    if not _is_near(str(location[-1]), meant) and (header := _find_header(model, location, given)):
        yield (*header.strip("[]").split("."), location[-1])


def _is_near(name: str, meant: str) -> bool:
    return bool(meant) and difflib.SequenceMatcher(None, name, meant).ratio() > _MISSPELLED


def _is_table(given: Any) -> bool:
    return isinstance(given, dict) or (isinstance(given, list) and any(isinstance(each, dict) for each in given))


def _find_header(model: type[BaseModel], location: Location, given: Any) -> str:
    """Return the header of the table where a key with a value belongs; empty if it fits none or several."""
    if _is_table(given):
        return ""
    name = str(location[-1])
    found = [header for path, header in _sections(model) if name in _keys_at(model, tuple(path.split(".")))]
    if len(location) == 1 and "[host]" in found:
        return "[host]"
    return found[0] if len(found) == 1 else ""


def _elsewhere(model: type[BaseModel], location: Location, given: Any, tree: Mapping[str, Any]) -> str:
    """Return what to write for a key or table at a wrong place; empty if it fits none or several."""
    if _is_table(given):
        header = dict(_sections(model)).get(str(location[-1]), "")
        return f"write {header} above its members" if header and len(location) > 1 else ""
    header = _find_header(model, location, given)
    if not header:
        return ""
    here: Any = tree
    for step in header.strip("[]").split("."):
        here = here.get(step) if isinstance(here, Mapping) else None
    place = f"write {header} above it, where it belongs" if here is None else f"move it below {header}"
    return f"{place}, or leave it out"


def _sections(model: type[BaseModel], before: str = "") -> Iterator[tuple[str, str]]:
    """Yield the tables of a file, to the second level: their names, and their headers."""
    for name, field in model.model_fields.items():
        inner = next(models_of(field.annotation), None)
        if inner is not None:
            path = f"{before}{field.alias or name}"
            yield path, f"[[{path}]]" if typing.get_origin(field.annotation) is tuple else f"[{path}]"
            if not before:
                yield from _sections(inner, f"{path}.")


def _closest_key(model: type[BaseModel], location: Location) -> str:
    """Return the key that an unknown one resembles most; empty where it resembles none."""
    close = difflib.get_close_matches(str(location[-1]).lower(), sorted(_keys_at(model, location[:-1])), 1, 0.6)
    return close[0] if close else ""


def _keys_at(model: type[BaseModel], location: Location) -> Iterable[str]:
    inner = _model_at(model, location)
    return [] if inner is None else [field.alias or name for name, field in inner.model_fields.items()]


def _model_at(model: type[BaseModel], location: Location) -> type[BaseModel] | None:
    """Return the class of the table at ``location``; None where it is of no class."""
    for step in location:
        if isinstance(step, int):
            continue
        field = model.model_fields.get(step)
        if field is not None:
            inner = next(models_of(field.annotation), None)
            if inner is None:
                return None
            model = inner
    return model


def models_of(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the model classes that an annotation is made of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif typing.get_origin(annotation) in (Union, types.UnionType) or typing.get_args(annotation):
        for argument in typing.get_args(annotation):
            if argument is not Secret:
                yield from models_of(argument)


def drop_consequences(faults: Iterable[ConfigFault], removed: Sequence[Location]) -> Iterator[ConfigFault]:
    """Yield the ``faults`` that do not merely follow from a key that was already reported."""
    for fault in faults:
        concerns = (fault.location, *fault.concerns)
        if not any(place[: len(gone)] == gone for place in concerns for gone in removed):
            yield fault


def merge_empty(faults: Iterable[ConfigFault], tree: Mapping[str, Any]) -> list[ConfigFault]:
    """Return the faults with one for each entry of a list of tables that has no keys, instead of one for each key."""
    found: dict[Location, ConfigFault] = {}
    for number, fault in enumerate(faults):
        here: Any = tree
        for length, step in enumerate(fault.location, 1):
            inside = isinstance(here, Mapping) and step in here
            if not inside and not (isinstance(here, list) and isinstance(step, int) and step < len(here)):
                break
            here = here[step]
            if here == {} and isinstance(step, int):
                place = fault.location[:length]
                found[place] = ConfigFault(location=place, message="has no keys", hint="remove this line")
                break
        else:
            length = 0
        if fault.location[:length] not in found:
            found[(number,)] = fault
    return list(found.values())


def subject(location: Location, tree: Mapping[str, Any]) -> str:
    """
    Return ``location`` as people write it: ``[listen] port``, ``[[mcp.server]] "files" timeout``.

    :param tree: the document, for the names of list elements.
    """
    section: list[str] = []
    label = ""
    here: Any = tree
    rest = list(location)
    while rest:
        inner = here.get(rest[0]) if isinstance(here, Mapping) else None
        element = inner[int(rest[1])] if isinstance(inner, list) and len(rest) > 1 else None
        if isinstance(element, Mapping):
            section.append(str(rest[0]))
            name = element.get("name")
            label = f' "{name[:40]}"' if isinstance(name, str) else f" number {int(rest[1]) + 1}"
            here, rest = element, rest[2:]
        elif isinstance(inner, Mapping) or (len(rest) > 1 and not section):
            section.append(str(rest[0]))
            here, rest = inner, rest[1:]
        else:
            break
    brackets = f"[[{'.'.join(section)}]]" if label and len(section) == 2 else f"[{'.'.join(section)}]"
    keys = "".join(f"[{step + 1}]" if isinstance(step, int) else f" {step}" for step in rest)
    return f"{brackets if section else ''}{label}{keys}".strip()
