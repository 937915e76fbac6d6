"""
The event that records that the operator accepted a store although its witness contradicted it.

The host is stopped, so the command writes the event itself, signed with the host's key, as the next entry of the host's
own chain. It is written before the witness file is replaced: a reader of the log finds the gap, and who answers for it.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from agtphost.audit.chain import RecordSigner
from agtphost.audit.checkpoint import Checkpoint
from agtphost.audit.drafts import HOST_CHAIN, Draft, Sealed, StreamEvent
from agtphost.audit.state_keeper import StateKeeper
from agtphost.audit.tree import TreeKeeper
from agtphost.audit.writer import GroupWriter, Submission
from agtphost.identity.key_history import every_public
from agtphost.identity.keys import SigningKey, fastest_signer
from agtphost.stores.interfaces import IChainStore
from agtphost.stores.rows import StoreError
from agtphost.vocabulary.foreign_errors import explain

EVENT = "store-accepted"


def operator() -> dict[str, Any]:
    """Return who runs this process: the user by the system, and the user that became it with ``sudo``."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = ""
    found: dict[str, Any] = {"uid": os.getuid(), "user": name}
    before = os.environ.get("SUDO_USER")
    return {**found, "sudo_user": before} if before else found


def record(
    store: IChainStore,
    key: SigningKey | None,
    fields: Mapping[str, Any],
    *,
    server_id: str,
    envelope: str = "jws",
    notes: Callable[[], Iterable[str]] = tuple,
) -> tuple[Sealed, Checkpoint]:
    """
    Write the event, and a checkpoint that covers it.

    :param key: None leaves both unsigned, like the records of such a host.
    :param fields: JSON: who accepted what.
    :param notes: further checkpoints of this store, such as that of the witness file.
    :return: the event, and the checkpoint, which no witness has seen yet.
    :raises StoreError: the store cannot be read, or takes no record.
    """
    tree = TreeKeeper(store, server_id, key)
    signer = RecordSigner(None if key is None else fastest_signer(key), envelope)
    keeper = StateKeeper(store, partial(every_public, key), notes, accept=True)
    writer = GroupWriter(store, signer, server_id=server_id, tree=tree, states=keeper)
    try:
        writer.load()
    except StoreError:
        raise
    except Exception as error:
        raise StoreError(f"the store cannot be read: {explain(error)}") from error
    tree.load(writer.begin)
    event = StreamEvent(chain=HOST_CHAIN, event_type=EVENT, fields=fields)
    submission = Submission(Draft(chain=HOST_CHAIN, payload={}, events=(event,)))
    writer.write([submission])
    if not isinstance(submission.outcome, Sealed):
        raise StoreError(f"the event cannot be written: {submission.outcome}")
    issued = tree.catch_up()
    assert issued is not None, "an event was added to the tree"
    return submission.outcome, issued
