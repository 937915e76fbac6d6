"""The command ``agtp methods``: the methods of the drafts, or those that a host offers (core v08 section 7.2.20)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from agtphost.cli.failures import WrongInput
from agtphost.cli.options import Connection, connection_options
from agtphost.cli.output import print_entries, print_json, print_table
from agtphost.vocabulary.catalog import FLOOR, Catalog, CatalogEntry

ALL = "all"


@click.command()
@click.argument("uri", required=False, metavar="[URI]")
@click.option(
    "--tier",
    type=click.Choice(("1", "2", ALL)),
    help="1: the methods that every host has (default); 2: the standard methods.",
)
@connection_options
def command(uri: str | None, tier: str | None, where: Connection, as_json: bool) -> None:
    """
    Show the eighteen methods of every host, the fifty standard ones, or those that one host offers.

    Without URI no host is asked: the command shows the tables of the drafts, with their categories and the effect
    classes of the catalog. With an agtp:// URI, or - for the configured host, it shows the answer of DISCOVER /methods
    to this caller.

    \b
    Examples:
      agtp methods
      agtp methods --tier 2 --json
      agtp methods agtp://agents.example.com --cacert ca.pem
    """
    if uri is not None:
        if tier is not None:
            raise WrongInput("--tier excludes URI: it selects from the drafts' tables")
        _show_offered(uri, where, as_json)
        return
    catalog = Catalog.load()
    rows = [row for row in describe_methods(catalog) if tier == ALL or row["tier"] == int(tier or "1")]
    if as_json:
        print_json({"version": catalog.version, "methods": rows})
        return
    print_table(
        ("METHOD", "TIER", "GROUP", "CATEGORY", "CHANGES", "IDEMPOTENT", "ERRORS", "EFFECTS"),
        (
            (
                row["method"],
                row["tier"],
                row.get("group", ""),
                row["category"],
                _word(row["state_modifying"]),
                _word(row["idempotent"]),
                " ".join(map(str, row.get("errors", ()))),
                ", ".join(row["categories"]),
            )
            for row in rows
        ),
    )


def describe_methods(catalog: Catalog) -> Iterator[dict[str, Any]]:
    """
    Yield one object for each method in the drafts' tables: the floor in its order, then the rest by name.

    ``category`` is that of the draft, ``categories`` are the catalog's effect classes; ``idempotent`` is true, false,
    ``per_action`` or ``conditional``.
    """
    for name in FLOOR:
        entry = catalog.entries[name]
        yield _row(entry, 1, entry.floor or {})
    for name in sorted(catalog.methods):
        entry = catalog.entries[name]
        if entry.standard is not None:
            yield _row(entry, 2, entry.standard)


def _row(entry: CatalogEntry, tier: int, tabulated: Any) -> dict[str, Any]:
    return {
        "method": entry.name,
        "tier": tier,
        **tabulated,
        "categories": list(entry.categories),
        "description": entry.description,
    }


def _word(value: object) -> str:
    return str(value).replace("_", " ") if isinstance(value, str) else "yes" if value else "no"


def methods_in(answer: Any) -> Any:
    """
    Return the list in an answer to DISCOVER /methods.

    In AGTP-API section 5.8 it is an array of objects. Other servers answer with an object whose ``methods`` is the
    array, with ``name`` for ``method``, or only with names. The reference server has two arrays, ``embedded`` with the
    protocol's own methods and ``custom`` with the operator's.
    """
    if isinstance(answer, dict) and isinstance(answer.get("embedded"), list):
        custom = answer.get("custom")
        answer = [*answer["embedded"], *(custom if isinstance(custom, list) else ())]
    listed = answer["methods"] if isinstance(answer, dict) and "methods" in answer else answer
    if isinstance(listed, dict):
        listed = [{"method": name, **(entry if isinstance(entry, dict) else {})} for name, entry in listed.items()]
    return [_entry(entry) for entry in listed] if isinstance(listed, list) else listed


def _entry(entry: Any) -> Any:
    if isinstance(entry, str):
        return {"method": entry}
    if isinstance(entry, dict) and "method" not in entry and isinstance(entry.get("name"), str):
        return {"method": entry["name"], **{name: value for name, value in entry.items() if name != "name"}}
    return entry


def _show_offered(uri: str, where: Connection, as_json: bool) -> None:
    from agtphost.cli.exchange import ask, entries_of
    from agtphost.cli.target import resolve

    target = resolve(where, uri)
    listed = entries_of(methods_in(ask(target, "DISCOVER", "/methods").result), "methods")
    if as_json:
        print_json({"uri": target.uri, "methods": listed})
    else:
        print_entries(listed, ("method", "path", "tier", "description"), as_json)
