"""Suggest what may be wrong with a filter that no record matches."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator

from agtphost.audit.filters.fields import FIELDS
from agtphost.audit.filters.query_text import TEXT
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.reasons import Reason


def find_slips(terms: Iterable[tuple[str, str]], named: Collection[str] = ()) -> Iterator[str]:
    """
    Yield what may be wrong with a filter, as phrases.

    :param terms: its fields and values.
    :param named: names of operators that the configuration lists; records also name those who left.
    """
    for field, value in terms:
        if field == "tool":
            said = "if the name is misspelt:" if "." in value else "most tools are named SERVER.TOOL, as"
            yield f"{said} `agtp tools ls` lists them"
        elif field == "reason":
            # Reasons of lifecycle events are the operator's own words.
            known = list(map(str, Reason))
            if value not in known and (close := difflib.get_close_matches(value, known, 1, 0.8)):
                yield f"did you mean the reason {close[0]}?"
        elif field == "operator":
            if value not in named and (close := difflib.get_close_matches(value, named, 1)):
                yield f"did you mean the operator {close[0]}?"
        elif field == "method":
            # A call of a method that no catalog has is on record under its name, where somebody tried it.
            catalog = Catalog.load()
            if not catalog.knows(value.upper()) and (nearest := catalog.close_matches(value, 1)):
                yield f"did you mean the method {nearest[0]}?"
        elif field == TEXT:
            name, equals, meant = value.partition("=")
            # Records call their members caller_id, session_id and so on.
            if equals and meant and (named := name.lower().removesuffix("_id")) in FIELDS:
                yield f"{value} is looked for as a text: write {named}:{meant}"
