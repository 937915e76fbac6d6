"""The options of the filter language, which several commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import click

from agtphost.audit.filters import FIELDS, FilterError, RecordFilter, find_slips
from agtphost.audit.filters.query_text import join_terms
from agtphost.cli.failures import WrongInput
from agtphost.cli.host_config import find_config, read_config
from agtphost.cli.identities import agent_id_of
from agtphost.cli.options import Connection, F

if TYPE_CHECKING:
    from agtphost.stores import Search

GIVEN = "given"
"""Name of the parameter that takes the values of these options, by field."""


NUMBER_OPTION = click.option(
    "-n",
    "--number",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="NUMBER",
    help="Maximum number of records to show.",
)
"""Of commands that show a part of the records."""


def filter_options(*, without: Collection[str] = ()) -> Callable[[F], F]:
    """
    Return a decorator that adds an option for each field of the filter language, and ``--filter`` for its texts.

    The function gets ``given``.

    :param without: fields that the command has no option for, because it has one of another meaning.
    """
    fields = [field for field in FIELDS.values() if field.name not in without]

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call_with_values(*args: Any, **values: Any) -> Any:
            texts = list(values.pop("filter_filter", ()))
            given = {}
            for field in fields:
                first, *others = values.pop(f"filter_{field.name}") or (None,)
                if first is not None:
                    given[field.name] = first
                # The language takes several texts, and refuses what contradicts itself.
                texts += [join_terms([(field.name, other)]) for other in others]
            if texts:
                given["filter"] = " ".join(texts)
            return function(*args, **{GIVEN: given}, **values)

        decorated: Any = call_with_values
        for field in reversed(fields):
            names = ["--from", "--since"] if field.name == "from" else [f"--{field.name}"]
            help_text = f"Only {field.meaning}."
            option = click.option(*names, f"filter_{field.name}", metavar=field.metavar, help=help_text, multiple=True)
            decorated = option(decorated)
        text = "Only records that match a filter such as 'agent:demo status:4xx'."
        result: F = click.option("--filter", "filter_filter", metavar="FILTER", help=text, multiple=True)(decorated)
        return result

    return decorate


def read_filter(given: Mapping[str, str], query: str = "") -> RecordFilter:
    """
    Return the filter of the values of options, and of a text.

    :raises WrongInput: a value cannot be used.
    """
    options = {name: value for name, value in given.items() if name != "filter"}
    try:
        return RecordFilter.parse(" ".join((query, given.get("filter", ""))).strip(), options)
    except FilterError as error:
        raise WrongInput(error.explanation.rstrip("."), error.remedy) from None


def describe_no_match(wanted: RecordFilter, where: Connection) -> str:
    """Return the note under an empty list: what may be wrong with the filter, by the local configuration if any."""
    path = find_config(where) if "operator" in wanted.values else None
    listed = () if path is None else read_config(path, warn=False).config.operator
    return "; ".join(("no record matches", *find_slips(wanted.terms, [each.name for each in listed])))


def read_search(given: Mapping[str, str], where: Connection) -> Search:
    """
    Return the search of the values of options; names are those of agents whose files are on this machine.

    :raises WrongInput: a value cannot be used.
    """
    return to_search(read_filter(given), where)


def to_search(wanted: RecordFilter, where: Connection) -> Search:
    """
    Return the search of a filter; names are those of agents whose files are on this machine.

    :raises WrongInput: an agent is not known here.
    """
    return wanted.to_search(lambda name: [agent_id_of(where, name)])
