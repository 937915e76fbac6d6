"""Find the event of a summary, by the id that the answers have which it counts."""

from __future__ import annotations

import re
from typing import Final

from agtphost.cli.audit.entries import Entry, entry_of
from agtphost.cli.exchange import entries_of, inspect, open_client, signing_keys
from agtphost.cli.failures import WrongInput
from agtphost.cli.options import Connection
from agtphost.cli.target import resolve
from agtphost.client.local_identities import REGISTRAR
from agtphost.vocabulary import times
from agtphost.vocabulary.identifiers import uuid7_milliseconds

_SUMMARY_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")

WRITTEN_WITHIN: Final = 3_660
"""Seconds within which the event of a summary is written; ``[audit] refusal_summary_seconds`` is an hour at most."""

MOST_ANSWERS: Final = 40
"""Answers of 200 events each that are looked through."""


def is_summary_id(text: str) -> bool:
    """Return whether a text is the id of a summary, a UUID of version 7."""
    return _SUMMARY_ID.fullmatch(text) is not None


def find_summary(where: Connection, summary_id: str) -> Entry:
    """
    Return the event of a summary, verified.

    :raises WrongInput: there is none.
    """
    target = resolve(where, identity=REGISTRAR)
    begun = uuid7_milliseconds(summary_id) / 1_000
    asked = {"target": "records", "chain": "host", "signed": True, "limit": 200}
    asked |= {"from": times.stamp(begun - 1), "until": times.stamp(begun + WRITTEN_WITHIN)}
    with open_client(target) as client:
        keys = signing_keys(target, client)
        # An operator who reads this chain has what is counted written first.
        inspect(client, target, {"target": "chain", "chain": "host", "limit": 1})
        for _ in range(MOST_ANSWERS):
            answer = inspect(client, target, asked)
            for listed in entries_of(answer.get("records"), "records"):
                entry = entry_of(listed, keys)
                if entry.payload.get("summary_id") == summary_id:
                    return entry
            if answer.get("before") is None:
                break
            asked["before"] = answer["before"]
    raise WrongInput(
        f"no record of the host is the summary {summary_id}",
        "Check the identifier; it is the Audit-Summary of an answer.",
    )
