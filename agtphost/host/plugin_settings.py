"""
Check the settings of a plugin against what its factory declares.

A factory may have an attribute ``settings_schema``: a JSON schema as a mapping, or a dataclass. Each wrong setting is a
fault with its own location, so that the message has the line of that key. Types are exact, as everywhere in
``host.toml``: a whole number in quotes is text.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time
from typing import Any

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from agtphost.config.faults import ConfigFault, describe_error
from agtphost.contract.schemas import CompiledSchema, SchemaError, compile_schema
from agtphost.vocabulary.tomltext import Location

ATTRIBUTE = "settings_schema"
"""The attribute of a factory that declares its settings."""


class UnusableSchema(Exception):
    """A declared schema that is neither a JSON schema nor a dataclass; the message says why."""


class WrongSettings(Exception):
    """
    Settings that do not follow what the factory declares.

    :param faults: everything wrong with them, with locations within the settings.
    """

    def __init__(self, faults: list[ConfigFault]) -> None:
        super().__init__("; ".join(f"{_name(fault.location)} {fault.message}" for fault in faults))
        self.faults = faults


def _name(location: Location) -> str:
    return ".".join(str(step) for step in ("settings", *location))


def read_settings(factory: Callable[..., Any], settings: Mapping[str, Any]) -> Any:
    """
    Return what a plugin's factory is called with.

    :param factory: with the attribute ``settings_schema``, or without.
    :param settings: as the file has them.
    :return: an instance of the declared dataclass; a dictionary where a JSON schema or nothing is declared.
    :raises UnusableSchema: the declaration itself is wrong.
    :raises WrongSettings: the settings are wrong.
    """
    declared = getattr(factory, ATTRIBUTE, None)
    plain = _to_plain(settings)
    if declared is None:
        return plain
    if isinstance(declared, Mapping):
        _require_schema(declared, plain)
        return plain
    if isinstance(declared, type) and dataclasses.is_dataclass(declared):
        return _read_dataclass(declared, plain)
    raise UnusableSchema(f"{ATTRIBUTE} is {type(declared).__name__}: it must be a JSON schema or a dataclass")


def _to_plain(value: Any) -> Any:
    """Return a copy in dictionaries and lists: a configuration has frozen ones."""
    if isinstance(value, Mapping):
        return {name: _to_plain(each) for name, each in value.items()}
    return [_to_plain(each) for each in value] if isinstance(value, (list, tuple)) else value


def _require_schema(schema: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    try:
        compiled = compile_schema(schema, role="tool")
    except SchemaError as error:
        raise UnusableSchema(f"{ATTRIBUTE} is not a JSON schema that this host runs: {error}") from None
    plain = json.loads(json.dumps(settings, default=_to_text))
    if not compiled.is_valid(plain):
        raise WrongSettings(list(_schema_faults(compiled, plain)))


def _schema_faults(compiled: CompiledSchema, settings: Any) -> Iterator[ConfigFault]:
    for found in compiled.faults(settings):
        location = _locate(found["path"], settings)
        if found["keyword"] == "additionalProperties":
            unknown = list(_find_undeclared(compiled.schema, settings, location))
            if unknown:
                yield from unknown
                continue
        yield ConfigFault(location=location, message=found["message"])


def _locate(pointer: str, settings: Any) -> Location:
    """Return the location of a JSON pointer: its numbers are indices where a list is, and else names."""
    found: list[str | int] = []
    here = settings
    for token in pointer.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        step: str | int = int(name) if isinstance(here, list) else name
        found.append(step)
        if isinstance(here, (list, dict)):
            here = here[step]  # type: ignore[index]
    return tuple(found)


def _find_undeclared(schema: Mapping[str, Any], settings: Any, location: Location) -> Iterator[ConfigFault]:
    """Yield a fault for each name that ``properties`` doesn't declare; none where other keywords decide about names."""
    declared, here = schema, settings
    for step in location:
        part = declared.get("items") if isinstance(step, int) else declared.get("properties", {}).get(step)
        if not isinstance(part, Mapping):
            return
        declared, here = part, here[step]
    if isinstance(here, dict) and "patternProperties" not in declared:
        known = sorted(declared.get("properties", {}))
        yield from (_unknown((*location, name), known) for name in here if name not in known)


def _read_dataclass(declared: type, settings: Mapping[str, Any]) -> Any:
    text = json.dumps(settings, default=_to_text)
    try:
        faults = list(_unknown_members(declared, settings, ()))
        if faults:
            raise WrongSettings(faults)
        # As JSON, whose lists may become tuples and sets, and whose texts paths and times, where types are exact.
        return TypeAdapter(declared).validate_json(text, strict=True)
    except ValidationError as error:
        raise WrongSettings([_fault(settings, details) for details in error.errors(include_url=False)]) from None
    except (PydanticUserError, NameError, TypeError) as error:
        raise UnusableSchema(f"{ATTRIBUTE} {declared.__name__} cannot be read: {error}") from None


def _to_text(value: object) -> str:
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is not a type of TOML")


def _fault(settings: Any, details: Mapping[str, Any]) -> ConfigFault:
    location = tuple(details["loc"])
    if details["type"] == "missing":
        return ConfigFault(location=location[:-1], message=f"misses {location[-1]}", hint=f"write {location[-1]} = ...")
    here, inside = settings, []
    for step in location:
        # Alternatives of a union add steps that are in no file.
        if (isinstance(here, Mapping) and step in here) or (isinstance(here, list) and isinstance(step, int)):
            here = here[step]
            inside.append(step)
    return describe_error(tuple(inside), {**details, "input": here})


def _unknown_members(hint: Any, value: Any, location: Location) -> Iterator[ConfigFault]:
    """Yield a fault for each key that the dataclass of its table has no field for."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        if isinstance(value, Mapping):
            known = {field.name for field in dataclasses.fields(hint) if field.init}
            hints = typing.get_type_hints(hint)
            for name, inner in value.items():
                if name in known:
                    yield from _unknown_members(hints[name], inner, (*location, name))
                else:
                    yield _unknown((*location, name), sorted(known))
        return
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        kinds = [each for each in arguments if each is not type(None)]
        if len(kinds) == 1:
            yield from _unknown_members(kinds[0], value, location)
    elif isinstance(value, list) and arguments:
        for index, each in enumerate(value):
            yield from _unknown_members(arguments[0], each, (*location, index))
    elif isinstance(value, Mapping) and len(arguments) == 2:
        for name, each in value.items():
            yield from _unknown_members(arguments[1], each, (*location, name))


def _unknown(location: Location, known: list[str]) -> ConfigFault:
    close = difflib.get_close_matches(str(location[-1]), known, 1, 0.6)
    hint = f'did you mean "{close[0]}"?' if close else f"leave it out; known here: {', '.join(known) or 'none'}"
    return ConfigFault(location=location, message="is unknown", hint=hint)
