"""Verify the store of a copy: every record, every chain, and the tree that its checkpoint commits to."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from agtphost.audit import checkpoint
from agtphost.audit.checkpoint import Checkpoint, CheckpointError
from agtphost.audit.verify import FaultKind, Report, Verifier
from agtphost.cli.audit.verify import compare_tables, contradiction, walk
from agtphost.cli.failures import Unverified, WrongInput
from agtphost.identity.keys import VerifyingKey
from agtphost.stores import RecordReader, StoreError, open_reader
from agtphost.vocabulary.foreign_errors import explain


@dataclass(frozen=True, kw_only=True)
class VerifiedStore:
    """The result for a store that verified."""

    report: Report
    newest: Checkpoint | None
    note: str
    """The newest checkpoint as it was signed; empty if there is none."""


def check(store: Path, keys: Mapping[str, VerifyingKey], *, signing: bool, what: str) -> VerifiedStore:
    """
    Verify a whole store.

    :param what: name of the store in errors.
    :raises Unverified: something differs from what was signed.
    :raises WrongInput: the file cannot be read as a store of this version.
    """
    verifier = Verifier(keys, allow_unsigned=not signing)
    newest = None
    try:
        with closing(open_reader(f"sqlite:{store}")) as reader:
            note = ""
            if walk(reader, verifier):
                compare_tables(reader, verifier, None, signing=signing)
                newest, note = _newest(reader, verifier, signing=signing)
    except (StoreError, sqlite3.Error) as error:
        raise WrongInput(f"{what} has a store that cannot be read: {explain(error)}") from error
    report = verifier.finish()
    if not report.ok:
        listed = "\n".join(f"  {fault}" for fault in report.faults[:20])
        raise Unverified(f"{what} does not verify:\n{listed}", "The copy was deleted.")
    return VerifiedStore(report=report, newest=newest, note=note)


def _newest(reader: RecordReader, verifier: Verifier, *, signing: bool) -> tuple[Checkpoint | None, str]:
    """Return the newest checkpoint and its note; note what contradicts it."""
    row = reader.checkpoint()
    if row is None:
        return None, ""
    try:
        newest = checkpoint.verify(row.note, verifier.keys.values()) if signing else checkpoint.read(row.note)
    except CheckpointError as error:
        verifier.note(FaultKind.HEAD, "", "", f"the newest checkpoint does not verify: {error}")
        return None, row.note
    if why := contradiction(reader, newest):
        verifier.note(FaultKind.HEAD, "", "", f"the newest checkpoint {why}")
    return newest, row.note
