"""
Find keys of ``[methods]`` that name an endpoint which cannot answer, so that what they are for always fails.

An endpoint with a fault may be left out (``[endpoints] on_error``), so the operator is warned and the host starts.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from agtphost.config.methods import MethodsSection
from agtphost.contract.binding import Binding
from agtphost.host.services import HostServices
from agtphost.vocabulary.paths import parse_template

DELIVERED = ("recipient", "channel", "content", "template_id")
"""The input of an endpoint that delivers for SEND and BROADCAST."""


def find_unanswered(services: HostServices) -> Iterator[str]:
    """Yield a warning for each endpoint that ``[methods]`` names and that cannot answer."""
    known = [f"{binding.method} {binding.path}" for binding in services.registry.all_bindings()]
    for what, place, given in _iterate_keys(services.config.methods):
        method, _, path = place.partition(" ")
        found = services.registry.match(method, path.partition("?")[0])
        if found is None:
            near = difflib.get_close_matches(place, known, 1)
            meant = f" (did you mean {near[0]!r}?)" if near else ""
            takes = f" that takes {', '.join(given)}" if given else ""
            yield f"{what} is {place!r}, and no endpoint is there{meant}; declare one{takes}, or correct the key"
        elif given:
            yield from _find_misfit(what, place, found.binding, given)


def _iterate_keys(section: MethodsSection) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield the name of each key, its ``METHOD /path``, and the input that is always sent there."""
    for each in section.send:
        yield f"[[methods.send]] {each.channel}: through", each.through, DELIVERED
    if section.pdf:
        yield "[methods] pdf", section.pdf, ("html",)
    for collection in section.collection:
        for remote in collection.remote:
            for key, place in (("pull", remote.pull), ("push", remote.push)):
                if place:
                    yield f"[methods.collection.remote] {remote.name}: {key}", place, ()


def _find_misfit(what: str, place: str, binding: Binding, given: tuple[str, ...]) -> Iterator[str]:
    """Yield a warning if an endpoint's input schema refuses what is always sent to it."""
    schema = {} if binding.input_schema is None else binding.input_schema.schema
    properties = schema.get("properties", {})
    if schema.get("additionalProperties") is False:
        refused = [name for name in given if name not in properties]
        if refused:
            yield f"{what} is {place!r}, whose input_schema lacks {', '.join(refused)}; declare what is sent there"
    lacking = [
        name for name in schema.get("required", ()) if name not in (*given, *parse_template(binding.path).parameters)
    ]
    if lacking:
        yield f"{what} is {place!r}, which requires {', '.join(lacking)}; only {', '.join(given)} are sent there"
