"""``[cluster]``: hosts that share a store in a database, of which one serves and the others stand by."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo

from agtphost.config import secret
from agtphost.config.faults import ConfigFault
from agtphost.config.values import Section, load_context
from agtphost.vocabulary import database_url
from agtphost.vocabulary.tomltext import Location

NAME_VARIABLE = "AGTPHOST_CLUSTER_NAME"
"""Overrides ``[cluster] name``."""

SHORTEST, LONGEST = 3, 60
"""Bounds of ``takeover_after``, in seconds."""


def _name(value: Any, info: ValidationInfo) -> str:
    text = load_context(info).environ.get(NAME_VARIABLE) or secret.text_of(value)
    if not text:
        return platform.node() or "localhost"
    if not text.isprintable() or " " in text or len(text) > 253:
        raise ValueError("must be 1 to 253 printable characters without spaces")
    return text


def _takeover_after(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not SHORTEST <= value <= LONGEST:
        raise ValueError(f"must be a number of seconds from {SHORTEST} to {LONGEST}")
    return float(value)


def _serve(value: Any) -> str:
    if value == "all":
        raise ValueError(
            'cannot be "all" in this version, in which one host serves and the others stand by; write "one"'
        )
    if value != "one":
        raise ValueError('must be "one"')
    return "one"


class ClusterSection(Section):
    """The section ``[cluster]``: hosts with one PostgreSQL store, of which one serves and the others stand by."""

    name: Annotated[str, BeforeValidator(_name), Field(validate_default=True)] = ""
    """
    Of this host, among those that share the store: no two have the same. ``AGTPHOST_CLUSTER_NAME`` overrides it; left
    out, it is the machine's name.
    """

    serve: Annotated[str, BeforeValidator(_serve)] = "one"
    """How many of the hosts serve at a time; ``one`` is the only value."""

    takeover_after: Annotated[float, BeforeValidator(_takeover_after)] = 10.0
    """
    Seconds, from 3 to 60, after which another host takes over from one that does not write to the store any more,
    because it was killed, is frozen or cut off. One that stops hands over immediately.
    """

    pod_label: bool = False
    """
    In Kubernetes: whether the host that serves sets the label ``agtphost/serving: "true"`` on its own pod, so that a
    Service can select it. The pod's service account needs the verb ``patch`` on pods.
    """


def cluster_faults(section: ClusterSection | None, url: str, *, plugin: bool) -> Iterator[ConfigFault]:
    """
    Check that a store is there which several hosts can share.

    :param section: None where the file has none.
    :param url: of ``[store]``.
    :param plugin: whether the store is a plugin's.
    """
    if section is None or (not plugin and database_url.is_postgresql(url)):
        return
    what = "a plugin" if plugin else "a SQLite file"
    locations: list[Location] = [("cluster", key) for key in sorted(section.model_fields_set)]
    for location in locations or [("cluster",)]:
        yield ConfigFault(
            location=location,
            message=f"needs a store in PostgreSQL, but [store] names {what}, which only one host can use",
            hint='remove [cluster], or write [store] url = "postgresql://..."',
            concerns=(("store", "url"), ("store", "plugin")),
        )
