"""Make the fields of a form from an input schema, and an input from the fields that were sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twisted.web.template import Tag, tags

from agtphost.page import elements
from agtphost.page.value_text import show_value
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.foreign_errors import explain

MOST_MEMBERS = 40
"""Members of an input schema that get a field each."""

MOST_OPTIONS = 100
"""Values of an enumeration that get an option each."""

TEXT, JSON = "text.", "json."
"""Prefixes of the names of fields: the value is text as it is, or JSON."""

WHOLE = "input"
"""The name of the field for the whole input as JSON."""

LONGEST = 16_384
"""Characters of one value."""


class MalformedInput(Exception):
    """An input cannot be made of the fields; the message is one sentence."""


def members_of(schema: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the members of an input schema that get fields."""
    members = schema.get("properties")
    found = members if isinstance(members, dict) else {}
    return {name: each for name, each in list(found.items())[:MOST_MEMBERS] if isinstance(each, dict)}


def fields(schema: Mapping[str, Any], known: str) -> list[Tag]:
    """
    Return a field for each member of a schema, and one for the whole input.

    :param known: the beginning of the ids of the fields.
    """
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    made = [
        _field(name, each, f"{known}-{number}", required=name in needed)
        for number, (name, each) in enumerate(sorted(members_of(schema).items(), key=lambda one: one[0] not in needed))
    ]
    label = "Input as JSON, in place of the fields above" if made else "Input as JSON"
    whole = tags.p(
        tags.label(label, for_=f"{known}-whole"),
        tags.textarea("", name=WHOLE, id=f"{known}-whole", maxlength=str(LONGEST), rows="3"),
    )
    return [*made, whole]


def _field(name: str, schema: Mapping[str, Any], known: str, *, required: bool) -> Tag:
    kind, options = schema.get("type"), schema.get("enum")
    label = f"{name}{' (required)' if required else ''}"
    described = schema.get("description")
    if isinstance(kind, str):
        label += f", {kind}"
    if isinstance(described, str) and described:
        label += f": {described[:200]}"
    label = _plain(label)
    if isinstance(options, list) and 0 < len(options) <= MOST_OPTIONS:
        shown = [(jsontext.encode(each).decode(), str(each)) for each in options]
        return elements.choice(JSON + name, label, known, [("", "not given"), *shown])
    if kind == "boolean":
        return elements.choice(JSON + name, label, known, [("", "not given"), ("true", "true"), ("false", "false")])
    if kind == "string":
        return elements.field(TEXT + name, label, known, maxlength=str(LONGEST), autocomplete="off")
    hint = {"inputmode": "decimal"} if kind in ("integer", "number") else {"placeholder": "JSON"}
    return elements.field(JSON + name, label, known, maxlength=str(LONGEST), autocomplete="off", **hint)


def _plain(text: str) -> str:
    return show_value(text, 300)


def read_input(given: Mapping[str, str]) -> dict[str, Any]:
    """
    Return the input that a form has sent; empty fields are not part of it.

    :raises MalformedInput: a value is not JSON, or the whole is not an object.
    """
    written = given.get(WHOLE, "").strip()
    if written:
        value = _decode(written, "The input")
        if not isinstance(value, dict):
            raise MalformedInput("The input is not a JSON object.")
        return value
    found: dict[str, Any] = {}
    for name, text in given.items():
        if not text:
            continue
        if name.startswith(TEXT):
            if len(text) > LONGEST:
                raise MalformedInput(f"{_plain(name[len(TEXT) :])} has more than {LONGEST} characters.")
            found[name[len(TEXT) :]] = text
        elif name.startswith(JSON):
            found[name[len(JSON) :]] = _decode(text, _plain(name[len(JSON) :]))
    return found


def _decode(text: str, what: str) -> Any:
    if len(text) > LONGEST:
        raise MalformedInput(f"{what} has more than {LONGEST} characters.")
    try:
        return jsontext.decode(text.encode())
    except (jsontext.JSONTextError, UnicodeEncodeError) as error:
        raise MalformedInput(f"{what} is not JSON: {explain(error)}") from None


def schema_of(definition: object) -> Mapping[str, Any]:
    """
    Return the input schema of a tool's definition; empty if it has none, or cannot be read.

    :param definition: the JSON text of the definition.
    """
    if not isinstance(definition, str):
        return {}
    try:
        read = jsontext.decode(definition.encode())
    except (jsontext.JSONTextError, UnicodeEncodeError):
        return {}
    schema = read.get("inputSchema") if isinstance(read, dict) else None
    return schema if isinstance(schema, dict) else {}


def names_of(entries: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return agents as options: Agent-ID, and the name with the state of those that are not active."""
    return [
        (
            str(each.get("agent_id")),
            str(each.get("display_name")) + ("" if each.get("status") == "active" else f" ({each.get('status')})"),
        )
        for each in entries
    ]
