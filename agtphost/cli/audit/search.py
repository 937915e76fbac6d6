"""The command ``agtp audit search``: find records of all chains, and count them."""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from agtphost.cli.audit.entries import Entry, entry_of
from agtphost.cli.audit.filter_options import (
    NUMBER_OPTION,
    describe_no_match,
    filter_options,
    read_filter,
    to_search,
)
from agtphost.cli.audit.record_table import entry_row, write_table
from agtphost.cli.audit.store import open_records
from agtphost.cli.exchange import entries_of, inspect, open_client
from agtphost.cli.exchange import signing_keys as keys_of_host
from agtphost.cli.failures import NoConnection, Unverified, WrongInput
from agtphost.cli.host_config import KEY_FILES, require_config
from agtphost.cli.identities import labels
from agtphost.cli.options import Connection, host_options, wide_option
from agtphost.cli.output import print_json, print_note, print_table
from agtphost.cli.progress import show_progress
from agtphost.cli.target import resolve, signing_keys
from agtphost.client.local_host import LocalHost
from agtphost.client.local_identities import REGISTRAR
from agtphost.identity import envelope
from agtphost.stores.record_search import CountedBy
from agtphost.vocabulary import times
from agtphost.vocabulary.display_names import CLAIMED, EVENT, NAMES_BELIEVED, UNKNOWN
from agtphost.vocabulary.quantities import plural

if TYPE_CHECKING:
    from agtphost.audit.drafts import StoredRecord
    from agtphost.audit.filters import RecordFilter
    from agtphost.iagtp import IRecordReader

PAGE = 200
"""Records of one answer."""

LARGEST = 2**53
"""Number of a record that a request can have."""

MOST_LOOKS = 40
"""Answers of one command without ``--all``: 120,000 records are read for a text that hardly any record has."""

WITHOUT_NAME = {EVENT: "events, not calls", UNKNOWN: "unknown methods", CLAIMED: "unproven callers"}
"""Words for the names under which a host counts records that have no tool, method or caller."""

COUNTED = tuple(each.value for each in CountedBy)


@dataclass(frozen=True, kw_only=True)
class Found:
    """A record that was found and verified."""

    number: int
    """Its place among all records of the host."""

    chain: str
    entry: Entry

    def fields(self) -> dict[str, object]:
        """Return the fields for ``--json``."""
        return {"number": self.number, "chain": self.chain, **self.entry.fields()}

    def row(self, names: Mapping[str, str]) -> tuple[object, ...]:
        """Return the row for a table."""
        return self.number, *self.entry.row(names)[1:]


@click.command("search")
@click.argument("query", metavar="[FILTER]...", nargs=-1)
@NUMBER_OPTION
@click.option("--all", "everything", is_flag=True, help="Show all that match.")
@click.option(
    "--before",
    type=click.IntRange(1, LARGEST),
    metavar="NUMBER",
    help="Only records older than this one; the first column of the table has the numbers.",
)
@click.option(
    "--count", "counted", type=click.Choice(COUNTED), help="Print counts of records grouped by this field instead."
)
@click.option("--csv", "as_csv", is_flag=True, help="Print a table for a spreadsheet.")
@click.option("--ids", is_flag=True, help="Print only the full Audit-IDs, for other commands.")
@click.option("--offline", is_flag=True, help="Read the store of the configured host, which need not run.")
@filter_options()
@wide_option
@host_options
def search_command(
    query: Sequence[str],
    number: int,
    everything: bool,
    before: int | None,
    counted: str | None,
    as_csv: bool,
    ids: bool,
    offline: bool,
    given: Mapping[str, str],
    where: Connection,
    as_json: bool,
) -> None:
    """
    Find records of all chains, newest first.

    A FILTER is a text such as 'agent:demo status:4xx', also as --filter; the options are the same conditions. A
    record is shown if it meets all of them. The hash and signature of every record shown are verified; counts are the
    host's own. Only operators may search: without --cert and --as, the registrar of the configured host asks.

    A text is looked for in the records themselves, 3,000 in an answer: without --all the command ends after 40
    answers, and says how far it came.

    \b
    Examples:
      agtp audit search --tool files.read_file --from 2026-11-27T10:00Z --until 2026-11-27T11:00Z --all
      agtp audit search 'agent:demo status:4xx from:-1h'
      agtp audit search --from -24h --count tool
      agtp audit search --status 5xx --csv --all > failed.csv
    """
    if as_csv and as_json:
        raise WrongInput("--csv and --json are both given", "Give one of them.")
    wanted = read_filter(given, " ".join(query))
    source: _Host | _Store = (_Store if offline else _Host)(where, wanted, before)
    if counted is not None:
        _print_counts(source.count(CountedBy(counted)), counted, labels(where), as_json, as_csv)
        if source.believes_names:
            print_note(NAMES_BELIEVED)
        return
    found = list(show_progress(source.records(None if everything else number), "records found"))
    if as_json:
        print_json([each.fields() for each in found])
    elif ids:
        for each in found:
            click.echo(each.entry.audit_id)
    elif as_csv:
        names = labels(where)
        rows = (entry_row(each.entry.payload, each.chain, each.entry.seq, each.entry.audit_id, names) for each in found)
        write_table(csv.writer(sys.stdout), rows)
    else:
        names = labels(where)
        print_table(("NUMBER", "ISSUED", "STATUS", "WHAT", "CALLER", "AUDIT-ID"), (each.row(names) for each in found))
    if source.unread is not None:
        place, reached = source.unread
        print_note(
            f"looked back to {reached or f'record {place}'}, and older records may match: go on with --before {place}, "
            "give --from, or look at all with --all"
        )
    elif len(found) == number and not everything and _has_default("number"):
        print_note(
            f"these are the newest {number}, and older records may match: go on with --before {found[-1].number}, "
            "give -n, or --all for all"
        )
    elif not found:
        print_note(describe_no_match(wanted, where))


def _has_default(name: str) -> bool:
    """Return whether an option of the command that runs was left out."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.DEFAULT


class _Host:
    """
    Records of a running host, read by INSPECT.

    :param before: the place to begin below; None: at the newest.
    """

    def __init__(self, where: Connection, wanted: RecordFilter, before: int | None) -> None:
        self.unread: tuple[int, str] | None = None
        """Where records begin that were not looked at, and their time; None where all were, or enough was found."""
        self.believes_names = False
        """Whether counts by agent include calls that only named the agent."""
        self._before = before
        self._target = resolve(where, identity=REGISTRAR)
        self._filter = wanted.to_text()

    def _answers(self, client: Any, **more: Any) -> Iterator[Mapping[str, Any]]:
        """Yield the answers to a search, each of which goes on where the one before it ended."""
        asked: dict[str, Any] = {"target": "records", "limit": PAGE, **more}
        if self._filter:
            asked["filter"] = self._filter
        if self._before is not None:
            asked["before"] = self._before
        while True:
            answer = inspect(client, self._target, asked)
            yield answer
            before = answer.get("before")
            if before is None:
                return
            if not isinstance(before, int) or before >= asked.get("before", before + 1):
                raise NoConnection("the answer does not continue where the last one ended")
            asked["before"] = before

    def records(self, most: int | None) -> Iterator[Found]:
        """Yield at most so many records, newest first."""
        left = most
        with open_client(self._target) as client:
            keys = keys_of_host(self._target, client)
            for looks, answer in enumerate(self._answers(client, signed=True), 1):
                for damaged in entries_of(answer.get("damaged"), "records"):
                    print_note(f"record {damaged.get('number')} of the store is damaged")
                for listed in entries_of(answer.get("records"), "records"):
                    entry, number = entry_of(listed, keys), listed.get("number")
                    yield Found(
                        number=number if isinstance(number, int) else 0, chain=str(listed.get("chain")), entry=entry
                    )
                    left = None if left is None else left - 1
                    if left == 0:
                        return
                if looks >= MOST_LOOKS and most is not None and isinstance(place := answer.get("before"), int):
                    self.unread = place, str(answer.get("reached") or "")
                    return

    def count(self, by: CountedBy) -> Counter[str]:
        """Count all records."""
        counts: Counter[str] = Counter()
        with open_client(self._target) as client:
            for answer in show_progress(self._answers(client, count=by.value), "answers counted"):
                self.believes_names = answer.get("names_believed") is True
                for each in entries_of(answer.get("counts"), "counts"):
                    counts[str(each.get("value"))] += int(each.get("records") or 0)
        return counts


class _Store:
    """
    Records of the configured host's store, which need not be open.

    :param before: the place to begin below; None: at the newest.
    """

    def __init__(self, where: Connection, wanted: RecordFilter, before: int | None) -> None:
        self.unread: tuple[int, str] | None = None
        """As for a host."""
        self._before = before
        self.believes_names = False
        """As for a host."""
        self._config = require_config(where, "an offline search", ("store",), *KEY_FILES)
        self._search = to_search(wanted, where)
        self._keys = signing_keys(LocalHost.of(self._config))

    def records(self, most: int | None) -> Iterator[Found]:
        """Yield at most so many records, newest first."""
        left, before, looks = most, self._before, 0
        with open_records(self._config) as reader:
            while left is None or left > 0:
                looks += 1
                page = reader.latest(before, PAGE if left is None else min(PAGE, left), self._search)
                if page.damaged:
                    raise Unverified(page.damaged[0][1], "Run agtp audit verify, which lists all that is damaged.")
                for number, record in page.records:
                    yield Found(number=number, chain=record.chain, entry=self._verify(record))
                left = None if left is None else left - len(page.records)
                before = page.before
                if before is None:
                    return
                if looks >= MOST_LOOKS and left is not None and left > 0:
                    reached = "" if page.reached is None else times.stamp(page.reached / 1_000)
                    self.unread = before, reached
                    return

    def _verify(self, record: StoredRecord) -> Entry:
        text = envelope.to_text(record.format, record.signed)
        listed = {"audit_id": record.audit_id, "seq": record.seq, "kind": record.kind, "format": record.format}
        return entry_of({**listed, record.format: text}, self._keys)

    def count(self, by: CountedBy) -> Counter[str]:
        """Count all records."""
        if self._search.text:
            raise WrongInput("records with a text cannot be counted", "Leave text out.")
        counts: Counter[str] = Counter()
        relaxed = self._config.host.development and self._config.listen.loopback
        self.believes_names = relaxed and by is CountedBy.AGENT
        with open_records(self._config) as reader:
            for part in show_progress(self._count_parts(reader, by), "parts counted"):
                counts.update(part)
        return counts

    def _count_parts(self, reader: IRecordReader, by: CountedBy) -> Iterator[Mapping[str, int]]:
        before = self._before
        while True:
            page = reader.count(by, before, self._search)
            yield page.counts
            before = page.before
            if before is None:
                return


def _print_counts(
    counts: Mapping[str, int], counted: str, names: Mapping[str, str], as_json: bool, as_csv: bool
) -> None:
    """Print counts, the largest first; hours in their order."""
    ordered = sorted(
        counts.items(), key=(lambda item: item[0]) if counted == "hour" else (lambda item: (-item[1], item[0]))
    )
    if as_json:
        listed = (
            {"value": value, **({"label": names[value]} if value in names else {}), "records": number}
            for value, number in ordered
        )
        print_json({"count": counted, "counts": list(listed)})
        return
    shown = [(WITHOUT_NAME.get(value) or names.get(value, value) or "none", number) for value, number in ordered]
    if as_csv:
        write_table(csv.writer(sys.stdout), shown, (counted, "records"))
        return
    print_table((counted.upper(), "RECORDS"), shown)
    click.echo(plural(sum(counts.values()), "record"))
