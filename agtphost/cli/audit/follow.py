"""The command ``agtp audit follow``: print records as they are made, each verified."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from agtphost.audit.filters import RecordFilter
from agtphost.cli.audit.entries import Entry, entry_of
from agtphost.cli.audit.filter_options import filter_options, read_filter, to_search
from agtphost.cli.exchange import entries_of, inspect, open_client, signing_keys
from agtphost.cli.failures import NoConnection, WrongInput
from agtphost.cli.identities import labels
from agtphost.cli.options import Connection, host_options
from agtphost.cli.output import print_line, print_note, visible_line
from agtphost.cli.target import resolve
from agtphost.client.local_identities import REGISTRAR

if TYPE_CHECKING:
    from agtphost.cli.target import Target
    from agtphost.client.sync import Client
    from agtphost.identity.keys import VerifyingKey

WAIT = 20
"""Seconds that the host may hold an answer until there is a new record."""

RETRY_DELAYS = (0.5, 1.0, 2.0, 5.0)
"""Seconds before each new attempt to reach a host; the last value repeats."""


@click.command("follow")
@filter_options(without=("until",))
@host_options
def follow_command(given: Mapping[str, str], where: Connection, as_json: bool) -> None:
    """
    Show records as they are made, until interrupted.

    Prints all records of the host in their order, each exactly once, even if the host restarts in between. The hash and
    signature of each are verified; the first record that does not verify ends the command with exit status 4. The host
    records when a client begins and stops following. With --from, records since then come first. Only operators may
    follow: without --cert and --as, the registrar of the configured host asks. With --json, each line is one object.

    \b
    Examples:
      agtp audit follow
      agtp audit follow --agent demo --status 4xx
      agtp audit follow --tool files.read_file --since 1h
      agtp audit follow --reason scope-required --json
    """
    wanted = read_filter(given)
    if wanted.until is not None:
        raise WrongInput("follow goes on until it is interrupted", "Leave until out, or use agtp audit search.")
    search = to_search(wanted, where)
    follower = _Follower(resolve(where, identity=REGISTRAR), wanted.since)
    names = labels(where)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for number, entry in follower.entries():
            if search.matches(entry.payload):
                _show(number, entry, names, as_json)
    except KeyboardInterrupt:
        pass
    finally:
        follower.close()


class _Follower:
    """
    A client of the host's feed of records; each query continues where the last answer ended.

    :param since: start time in milliseconds since 1970; None for now.
    """

    def __init__(self, target: Target, since: int | None) -> None:
        self._target = target
        self._since = since
        self._after: int | None = None

    def entries(self) -> Iterator[tuple[int, Entry]]:
        """Yield every record with its place in the feed; never end."""
        failed = 0
        while True:
            try:
                with open_client(self._target) as client:
                    keys = signing_keys(self._target, client)
                    self._open(client)
                    failed = 0
                    while True:
                        yield from self._more(client, keys)
            except NoConnection as error:
                if self._after is None:
                    raise  # The host was never reached.
                print_note(f"no connection, trying again: {error.message}")
                time.sleep(RETRY_DELAYS[min(failed, len(RETRY_DELAYS) - 1)])
                failed += 1

    def _inspect_feed(self, client: Client, moment: str, **more: Any) -> Mapping[str, Any]:
        place = {} if self._after is None else {"after": self._after}
        return inspect(client, self._target, {"target": "feed", "moment": moment, **place, **more})

    def _open(self, client: Client) -> None:
        if self._after is None and self._since is not None:
            self._after = _place_of(client, self._target, self._since)
        self._after = int(self._inspect_feed(client, "opens").get("after") or 0)

    def _more(self, client: Client, keys: Mapping[str, VerifyingKey]) -> Iterator[tuple[int, Entry]]:
        told = self._inspect_feed(client, "goes on", wait=WAIT)
        assert self._after is not None
        for listed in entries_of(told.get("records"), "records"):
            number = int(listed.get("number") or 0)
            if number <= self._after:
                raise NoConnection("the answer does not continue where the last one ended")
            if "damaged" in listed:
                print_note(f"record {number} of the store is damaged: {listed['damaged']}")
            else:
                yield number, entry_of(listed, keys)
            # Advance only after the record was shown, so that a broken connection skips none.
            self._after = number
        self._after = max(self._after, int(told.get("after") or 0))

    def close(self) -> None:
        """Record the end of the feed, if the host can be reached."""
        if self._after is None:
            return
        try:
            with open_client(self._target) as client:
                self._inspect_feed(client, "closes")
        except NoConnection:
            print_note("the host does not answer, so the end of the feed is not recorded")


def _place_of(client: Client, target: Target, since: int) -> int:
    """Return the place of the last record before a time."""
    until = RecordFilter(values={"until": ""}, until=since).to_text()
    before: int | None = None
    while True:
        more = {} if before is None else {"before": before}
        told = inspect(client, target, {"target": "records", "limit": 1, "filter": until, **more})
        for listed in entries_of(told.get("records"), "records"):
            return int(listed.get("number") or 0)
        before = told.get("before")
        if not isinstance(before, int):
            return 0


def _show(number: int, entry: Entry, names: Mapping[str, str], as_json: bool) -> None:
    if as_json:
        print_line({"number": number, **entry.fields()})
    else:
        _, issued, status, what, caller, audit_id = entry.row(names)
        click.echo(visible_line(f"{issued}  {status or '-':<3}  {what}  {caller or '-'}  {audit_id}"))
    sys.stdout.flush()
