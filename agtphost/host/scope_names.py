"""The scopes that a host asks for: those of its methods, its endpoints, its servers and its configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from agtphost.config import Config
from agtphost.handlers.authorization import DECIDE, INSPECT_ALL
from agtphost.methods.discovery.status_document import OBSERVE
from agtphost.methods.standard.table import STANDARD
from agtphost.negotiation.negotiator import PERSIST
from agtphost.vocabulary import scopes

OWN = frozenset({INSPECT_ALL, DECIDE, OBSERVE, *scopes.EXPLICIT})
"""Scopes that methods of the host ask for without a setting."""


def named_scopes(config: Config) -> frozenset[str]:
    """Return the scopes of the host's own methods, and every scope that its configuration names."""
    methods = {STANDARD[name].scope for name in config.methods.names} - {""}
    persistent = {PERSIST} if config.policies.synthesis.persistent else set()
    return OWN | methods | persistent | frozenset(_tokens(config.model_dump()))


def _tokens(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if scopes.is_token(value):
            yield value
    elif isinstance(value, Mapping):
        yield from _of_all(value.values())
    elif isinstance(value, (list, tuple)):
        yield from _of_all(value)


def _of_all(values: Iterable[Any]) -> Iterator[str]:
    for each in values:
        yield from _tokens(each)
