"""The command ``agtp audit follow``: print records as they are made, each verified."""

from __future__ import annotations

import re
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from agtphost.cli.audit.entries import Entry, entry_of
from agtphost.cli.audit.export import milliseconds
from agtphost.cli.exchange import entries_of, inspect, open_client, signing_keys
from agtphost.cli.failures import NoConnection, WrongInput
from agtphost.cli.identities import agent_id_of, labels
from agtphost.cli.options import Connection, host_options
from agtphost.cli.output import print_line, visible
from agtphost.cli.target import resolve
from agtphost.client.local_identities import REGISTRAR
from agtphost.vocabulary.display_names import display_name

if TYPE_CHECKING:
    from agtphost.cli.target import Target
    from agtphost.client.sync import Client
    from agtphost.identity.keys import VerifyingKey

WAIT = 20
"""Seconds that the host may hold an answer until there is a new record."""

RETRY_DELAYS = (0.5, 1.0, 2.0, 5.0)
"""Seconds before each new attempt to reach a host; the last value repeats."""


@dataclass(frozen=True, kw_only=True)
class RecordFilter:
    """A filter for the records that are printed."""

    agent: str | None
    tool: str | None
    status: str | None
    reason: str | None

    def matches(self, entry: Entry) -> bool:
        """Return whether a record passes every given filter."""
        payload = entry.payload
        if self.agent is not None and self.agent not in (payload.get("caller_id"), payload.get("agent_id")):
            return False
        if self.tool is not None and display_name(payload) != self.tool:
            return False
        if self.status is not None and not re.fullmatch(self.status.replace("x", "."), str(payload.get("status", ""))):
            return False
        return self.reason is None or payload.get("reason") == self.reason


@click.command("follow")
@click.option("--agent", metavar="NAME", help="Only calls by this agent, or answered by it.")
@click.option("--tool", metavar="SERVER.TOOL", help="Only calls of this tool or action.")
@click.option("--status", metavar="CODE", help="Only this status; 4xx means any from 400 to 499.")
@click.option("--reason", metavar="TOKEN", help="Only refusals with this reason.")
@click.option("--since", metavar="TIME", help="Start time: RFC 3339, or 1h ago; default: now.")
@host_options
def follow_command(
    agent: str | None,
    tool: str | None,
    status: str | None,
    reason: str | None,
    since: str | None,
    where: Connection,
    as_json: bool,
) -> None:
    """
    Show records as they are made, until interrupted.

    Prints all records of the host in their order, each exactly once, even if the host restarts in between. The hash and
    signature of each are verified; the first record that does not verify ends the command with exit status 4. The host
    records when a client begins and stops following. Only operators may follow: without --cert and --as, the registrar
    of the configured host asks. With --json, each line is one object.

    \b
    Examples:
      agtp audit follow
      agtp audit follow --agent demo --status 4xx
      agtp audit follow --tool files.read_file --since 1h
      agtp audit follow --reason scope-required --json
    """
    if status is not None and not re.fullmatch(r"[1-9]([0-9x][0-9x])", status):
        raise WrongInput(f"--status {status!r} is not a status", "Give one such as 403 or 4xx.")
    named = None if agent is None else agent_id_of(where, agent)
    wanted = RecordFilter(agent=named, tool=tool, status=status, reason=reason)
    follower = _Follower(resolve(where, identity=REGISTRAR), milliseconds(since, "--since"))
    names = labels(where)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for number, entry in follower.entries():
            if wanted.matches(entry):
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
                click.echo(visible(f"no connection, trying again: {error.message}"), err=True)
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
                click.echo(visible(f"record {number} of the store is damaged: {listed['damaged']}"), err=True)
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
            click.echo("the host does not answer, so the end of the feed is not recorded", err=True)


def _place_of(client: Client, target: Target, since: int) -> int:
    """Return the place of the last record before a time."""
    from datetime import datetime

    before: int | None = None
    while True:
        more = {} if before is None else {"before": before}
        told = inspect(client, target, {"target": "records", "limit": 200, **more})
        for listed in entries_of(told.get("records"), "records"):
            issued = datetime.fromisoformat(str(listed.get("issued_at")))
            if issued.timestamp() * 1000 < since:
                return int(listed.get("number") or 0)
        before = told.get("before")
        if not isinstance(before, int):
            return 0


def _show(number: int, entry: Entry, names: Mapping[str, str], as_json: bool) -> None:
    if as_json:
        print_line({"number": number, **entry.fields()})
    else:
        _, issued, status, what, caller, audit_id = entry.row(names)
        click.echo(visible(f"{issued}  {status or '-':<3}  {what}  {caller or '-'}  {audit_id}"))
    sys.stdout.flush()
