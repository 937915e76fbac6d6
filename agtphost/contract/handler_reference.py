"""A checker of the ``handler`` table of an endpoint: one of three binding kinds (AGTP-API section 12)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from agtphost.contract import service
from agtphost.contract.endpoint import HANDLER_TYPES, PLUGIN, HandlerReference
from agtphost.contract.examples import meant_members
from agtphost.contract.recipes.recipe import COMPOSITION_FAILED
from agtphost.contract.recipes.recipe_loading import NAME, VERSION
from agtphost.vocabulary.tomltext import Location

FORM = '[handler] with type = "registered_function" and function'

WHERE: Mapping[str, str] = {"blocking": "in a thread", "asyncio": "on an event loop of asyncio"}
"""Members that move a function out of the reactor's thread."""

_DOTTED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)+", re.ASCII)

Say = Callable[[Location, str, str], None]
Members = Callable[[Mapping[str, Any], Collection[str], Collection[str], Location], None]
"""Checks a table's member names; takes the table, the known names, the required ones, and its location."""


def read_handler(
    block: Mapping[str, Any],
    errors: Sequence[str] | None,
    schema: Mapping[str, Any],
    *,
    members: Members,
    say: Say,
) -> HandlerReference | None:
    """
    Check one handler table.

    :param errors: errors that the endpoint declares; None if it declares none, which is reported separately.
    :param schema: its input schema.
    :param say: takes locations in the endpoint's table.
    :return: None if this host does not run the kind, or an external service is faulty.
    """
    kind = block.get("type")
    if kind == PLUGIN:
        members(block, ("type", "plugin", "settings", *WHERE), ("plugin",), ("handler",))
        return _plugin(block, say)
    if "type" in meant_members(block, ("type",)).values():
        members(block, ("type", *service.MEMBERS, "recipe", "function", "plugin", "settings", *WHERE), (), ("handler",))
        return None
    if kind not in HANDLER_TYPES:
        given = f"{str(kind)[:40]!r} is not supported" if kind else "is missing"
        choices = " or ".join(f'"{each}"' for each in (*HANDLER_TYPES, PLUGIN))
        say(("handler", "type"), f"handler.type {given}", f"write type = {choices}")
        return None
    if kind == "composition":
        members(block, ("type", "recipe"), ("recipe",), ("handler",))
        _check_declared_errors((COMPOSITION_FAILED,), errors, kind, say)
        return HandlerReference(type=kind, recipe=_recipe(block, say))
    if kind == "external_service":
        members(block, service.MEMBERS, ("url", "method"), ("handler",))
        return _service(block, errors, schema, say)
    members(block, ("type", "function", *WHERE), ("function",), ("handler",))
    function, (blocking, on_loop) = _function(block, say), _where(block, say)
    if not function:
        return None
    return HandlerReference(type=kind, function=function, blocking=blocking, asyncio=on_loop)


def _function(block: Mapping[str, Any], say: Say) -> str:
    """Return the dotted path of the function; empty if it is none."""
    function = block.get("function", "a.b")
    if not isinstance(function, str) or _DOTTED.fullmatch(function) is None:
        said = f"handler.function {str(function)[:64]!r} is not a dotted path such as package.module.function"
        say(("handler", "function"), said, "")
        return ""
    return function


def _plugin(block: Mapping[str, Any], say: Say) -> HandlerReference:
    """Return the reference to a plugin's function; others see it as a registered function (AGTP-API section 8.9)."""
    name, settings = block.get("plugin", "a"), block.get("settings", {})
    if not isinstance(name, str) or not name:
        say(("handler", "plugin"), "handler.plugin must be the name of a plugin", "such as library")
    if not isinstance(settings, Mapping):
        say(("handler", "settings"), "handler.settings must be a table", "write [handler.settings]")
        settings = {}
    blocking, on_loop = _where(block, say)
    return HandlerReference(
        type="registered_function", plugin=str(name), settings=settings, blocking=blocking, asyncio=on_loop
    )


def _where(block: Mapping[str, Any], say: Say) -> tuple[bool, bool]:
    """
    Return whether the function runs in a thread, and whether on an asyncio loop; otherwise it runs in the reactor.
    """
    for name, meaning in WHERE.items():
        if not isinstance(block.get(name, False), bool):
            say(("handler", name), f"handler.{name} must be true or false", f"true runs the function {meaning}")
    blocking, on_loop = block.get("blocking") is True, block.get("asyncio") is True
    if blocking and on_loop:
        say(
            ("handler", "asyncio"),
            "handler.blocking and handler.asyncio are both true",
            "set only blocking for a function that waits in a thread, or only asyncio for an asyncio coroutine",
        )
    return blocking, on_loop


def _recipe(block: Mapping[str, Any], say: Say) -> str:
    recipe = block.get("recipe", "a")
    name, at, version = recipe.partition("@") if isinstance(recipe, str) else ("", "", "")
    if NAME.fullmatch(name) is None or (at and VERSION.fullmatch(version) is None):
        say(
            ("handler", "recipe"),
            f"handler.recipe {str(recipe)[:64]!r} is not NAME or NAME@VERSION",
            "",
        )
    return str(recipe)


def _service(
    block: Mapping[str, Any], errors: Sequence[str] | None, schema: Mapping[str, Any], say: Say
) -> HandlerReference | None:
    def say_below(location: Location, message: str, hint: str) -> None:
        say(("handler", *location), message, hint)

    _check_declared_errors(service.UPSTREAM_ERRORS, errors, "external_service", say)
    found = service.read_service(block, say_below)
    if found is None:
        return None
    for status, error in found.error_map.items():
        if errors is not None and error not in errors:
            say(
                ("handler", "error_map", str(status)),
                f"handler.error_map.{status} names {error[:64]!r}, which errors does not declare",
                f"add {error[:64]!r} to errors",
            )
    given, needed = schema.get("properties"), schema.get("required")
    properties = given if isinstance(given, Mapping) else {}
    required = needed if isinstance(needed, list) else ()
    for name in map(found.ours, found.places):
        if name not in properties or name not in required:
            say(
                ("handler", "url"),
                f"handler.url needs {name[:64]!r}, which input_schema does not declare as a required property",
                "",
            )
    for name in map(found.ours, found.query):
        if name not in properties:
            say(("handler", "query"), f"handler.query names {name[:64]!r}, which input_schema does not declare", "")
    _declared_members(found, properties, say)
    for one, other, part in found.sent_alike(dict.fromkeys((*properties, *found.input_transform))):
        say(
            ("handler", "input_transform"),
            f"handler.input_transform gives two members the same name in the {part}: {one[:64]!r} and {other[:64]!r}",
            "give them different names, or send one of them in the path or the query",
        )
    return HandlerReference(type="external_service", service=found)


def _declared_members(found: service.ServiceReference, properties: Mapping[str, Any], say: Say) -> None:
    """Check that the members that the request is built from are properties of the input."""
    placed, queried = set(map(found.ours, found.places)), set(map(found.ours, found.query))
    for name in found.input_headers:
        if name not in properties or name in placed or name in queried or name == found.whole_body:
            said = f"handler.input_headers names {name[:64]!r}, which is sent elsewhere or not in input_schema"
            say(("handler", "input_headers", name), said, "")
    if found.whole_body and (found.whole_body not in properties or found.whole_body in placed | queried):
        said = f"handler.whole_body names {found.whole_body[:64]!r}, which is sent elsewhere or not in input_schema"
        say(("handler", "whole_body"), said, "")
    for name in found.encoding:
        if name not in properties:
            said = f"handler.encoding names {name[:64]!r}, which input_schema does not declare"
            say(("handler", "encoding", name), said, "")
    if found.whole_body:
        sent = {*placed, *queried, *found.input_headers, found.whole_body}
        if left := [name for name in properties if name not in sent]:
            said = f"handler.whole_body is the whole body, so {left[0][:64]!r} would not be sent"
            say(("handler", "whole_body"), said, "name it in query or input_headers")


def _check_declared_errors(wanted: Sequence[str], errors: Sequence[str] | None, kind: str, say: Say) -> None:
    """Check that the endpoint declares the failures of its binding kind (AGTP-API sections 12.1 and 12.3)."""
    if errors is None:
        return
    whole = ", ".join(f'"{name}"' for name in dict.fromkeys((*map(str, errors), *wanted)))
    for name in wanted:
        if name not in errors:
            message = f"errors lacks {name}, which every {kind} endpoint must declare"
            say(("errors",), message, f"write errors = [{whole}]")
