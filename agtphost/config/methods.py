"""``[methods]``: which of the fifty standard methods this host answers."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from agtphost.config.faults import ConfigFault
from agtphost.config.prices import PriceSection, price_faults
from agtphost.config.send_targets import PLACE, ConnectSection, SendSection
from agtphost.config.signing_keys import SigningKeySection, signing_key_faults
from agtphost.config.values import Items, Line, Scope, Section, Table, form
from agtphost.vocabulary import formulas
from agtphost.vocabulary.catalog import Catalog

EVERY: Final = "*"
READING: Final = "reading"
"""In place of a list: those that change nothing, and may be repeated."""


def standard_names() -> tuple[str, ...]:
    """Return the names of the catalog's fifty standard methods, in alphabetic order."""
    return tuple(entry.name for entry in Catalog.load().entries.values() if entry.standard is not None)


def reading_names() -> tuple[str, ...]:
    """Return the methods that change nothing and may be repeated (methods v01 Table 51)."""
    told = ((entry.name, entry.standard) for entry in Catalog.load().entries.values())
    return tuple(name for name, row in told if row and not row["state_modifying"] and row["idempotent"] is True)


def _standard(value: Any) -> str | tuple[str, ...]:
    if value in (EVERY, READING):
        return str(value)
    if not isinstance(value, (list, tuple)) or not all(isinstance(name, str) for name in value):
        raise ValueError(f'must be "{EVERY}", "{READING}" or a list of method names')
    known, floor = standard_names(), {name for name, entry in Catalog.load().entries.items() if entry.floor}
    for name in value:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            if name in floor:
                raise ValueError(f"holds {name!r}, which every host answers; leave it out of the list")
            raise ValueError(f"holds {name[:40]!r}, which is not one of the fifty standard methods{meant}")
    return tuple(value)


def _formulas(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError("must be a table of formulas")
    for name, formula in value.items():
        if not formulas.is_id(name):
            raise ValueError(
                f"holds {str(name)[:40]!r}, which is not a name of 1 to 64 letters, digits, dots and hyphens"
            )
        if not isinstance(formula, Mapping):
            raise ValueError(f'holds {name!r}, which is not a formula such as {{ op = "negate", args = [1] }}')
        try:
            formulas.check_formula(formula)
        except formulas.FormulaError as error:
            raise ValueError(f"holds {name!r}, which cannot be computed: {error}") from None
    return value


_PROCEDURE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}", re.ASCII)


def _procedures(value: Any) -> Any:
    for name, recipe in value.items() if isinstance(value, dict) else ():
        if not _PROCEDURE.fullmatch(name):
            raise ValueError(f"has {name[:40]!r}, which is not a procedure_id such as quality-check")
        if not isinstance(recipe, str) or not recipe:
            raise ValueError(f"{name} names no recipe")
    return value


Name = Annotated[
    str,
    form(
        r"[a-z][a-z0-9_-]{0,63}",
        "holds {}, which is not a name (1 to 64 of a-z, 0-9, _ and -, beginning with a letter)",
    ),
]


class RemoteSection(Section):
    """
    An entry of ``[[methods.collection.remote]]``: an authoritative source with which SYNC synchronizes a collection.
    """

    name: Name
    """What callers of SYNC call it."""

    pull: Line = ""
    """
    What answers with the remote's items, as ``METHOD /path`` of this host: an endpoint made of a function, a recipe, an
    MCP tool or an HTTPS service. It answers ``{"items": [{"id": ..., "data": ...}]}``. Empty: nothing is pulled.
    """

    push: Line = ""
    """What takes ``{"items": [...]}`` to the remote, as ``METHOD /path`` too. Empty: nothing is pushed."""


class CollectionSection(Section):
    """An entry of ``[[methods.collection]]``: JSON documents that agents keep here."""

    name: Name
    """What callers call it."""

    read: Items[Scope] = ()
    """
    Scopes that reading takes, all of them. ``[]``: every agent that has proven who it is reads. In production this line
    must be there.
    """

    write: Items[Scope] = ()
    """
    Scopes that writing takes, all of them. ``[]``: every agent that has proven who it is writes. In production this
    line must be there. Who entered an item is its owner.
    """

    schema_: Annotated[Table[str, Any] | None, Field(alias="schema")] = None
    """A JSON Schema that the data of every item follows; None: any JSON."""

    max_items: Annotated[int, Field(ge=1, le=100_000)] = 10_000
    """Items at most. They are in memory: 100,000 of 4 KiB are 0.5 to 1 GiB, which ``agtp check`` warns of."""

    max_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """
    The part of ``max_items`` that one agent may have of what all others leave free; all agents of one owner together
    have at most what two of them could take one after the other, three quarters. In a queue also the part of the free
    items that one agent may hold by PULL. 1: one agent may have everything.
    """

    versions: Annotated[int, Field(ge=0, le=20)] = 5
    """
    Former versions of an item at most, which FETCH returns by ``version``; the items of a queue have none. They count
    for the memory of the host as items do.
    """

    queue: bool = False
    """
    Whether it is a queue: SUBMIT puts items in, PULL hides them from others for a while, and CONFIRM takes them out.
    """

    remote: Items[RemoteSection] = ()
    """``[[methods.collection.remote]]``: what SYNC may bring it together with."""


RESERVED_NAMES: Final = ("relations", "bindings", "agents", "cards", "records")
"""What SEARCH and SCAN call what every host has."""


class MethodsSection(Section):
    """
    The section ``[methods]``: the standard methods that this host answers on ``/`` (``docs/standard-methods``). A
    change of it is taken on a reload.
    """

    standard: Annotated[str | tuple[str, ...], BeforeValidator(_standard)] = ()
    """
    Names of standard methods, ``"*"`` for all fifty, or ``"reading"`` for those that change nothing and may be
    repeated. The others are in no list, and 405.
    """

    formulas: Annotated[Mapping[str, Any], BeforeValidator(_formulas)] = Field(default_factory=dict)
    """Formulas that CALCULATE knows by name, each a tree as its callers send (``docs/data-methods``)."""

    procedures: Annotated[Table[str, str], BeforeValidator(_procedures)] = Field(default_factory=dict)
    """
    What RUN runs: recipes of ``[recipes] file`` by procedure_id, as ``quality-check = "quality@2"`` or without a
    version. Nothing else is ever run.
    """

    collection: Items[CollectionSection] = ()
    """``[[methods.collection]]``: JSON documents that agents keep here, for FETCH, SEARCH, REGISTER and others."""

    signing_key: Items[SigningKeySection] = ()
    """``[[methods.signing_key]]``: keys of a principal or an organization that SIGN signs with."""

    price: Items[PriceSection] = ()
    """``[[methods.price]]``: what calls take, for QUOTE and ``Budget-Limit``."""

    send: Items[SendSection] = ()
    """``[[methods.send]]``: the channels of SEND and BROADCAST that leave AGTP."""

    connect: Items[ConnectSection] = ()
    """``[[methods.connect]]``: the pairs that CONNECT may connect."""

    pdf: str = ""
    """
    What makes a PDF of HTML for REPORT, as ``METHOD /path`` of this host: it gets ``html`` and answers ``document``.
    Empty: reports are JSON, Markdown or HTML.
    """

    @cached_property
    def names(self) -> frozenset[str]:
        """The methods that are on."""
        if self.standard == EVERY:
            return frozenset(standard_names())
        if self.standard == READING:
            return frozenset(reading_names())
        return frozenset(self.standard)


RIGHTS: Final = (("read", "reads"), ("write", "writes"))
"""The keys of a collection that say who may do what."""


def _access_faults(section: MethodsSection) -> Iterator[ConfigFault]:
    """Find collections of a production host that do not say who reads and who writes them."""
    for number, each in enumerate(section.collection):
        for key, does in RIGHTS:
            if key not in each.model_fields_set:
                yield ConfigFault(
                    location=("methods", "collection", number, "name"),
                    message=f'is "{each.name}", and {key} is missing: in production a collection says who {does}',
                    hint=f'add {key} = ["{each.name}:{key}"] with the scopes that it takes, or {key} = [] for every '
                    "agent that has proven who it is",
                )


def methods_faults(section: MethodsSection, *, development: bool = False) -> Iterator[ConfigFault]:
    """Find what no key tells alone."""
    if not development:
        yield from _access_faults(section)
    yield from signing_key_faults(section.signing_key)
    yield from price_faults(section.price)
    seen: set[str] = set()
    for number, each in enumerate(section.collection):
        at = ("methods", "collection", number)
        if each.name in RESERVED_NAMES:
            said = "is a method that every host has already"
            yield ConfigFault(location=(*at, "name"), message=said, hint="choose another name")
        if each.name in seen:
            yield ConfigFault(
                location=(*at, "name"), message="is the name of two collections", hint="choose another name"
            )
        seen.add(each.name)
    if section.pdf and re.fullmatch(PLACE, section.pdf) is None:
        yield ConfigFault(
            location=("methods", "pdf"), message="is not a METHOD /path", hint='write pdf = "TRANSFORM /pdf"'
        )
    for number, send in enumerate(section.send):
        at = ("methods", "send", number)
        if send.channel == "webhook" and not send.recipients:
            said = "must name the webhooks: callers name no addresses"
            yield ConfigFault(location=(*at, "recipients"), message=said, hint='recipients = ["ops"]')
