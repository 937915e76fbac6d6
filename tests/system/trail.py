"""
What really happened on a host: which calls took effect, and what its store holds.

:func:`traced` adds the endpoint ``BOOK /stay`` to a copy of the sample deployment. Each run of
its handler appends one line to a file, outside of the store and of the host's answers.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path

from agtphost.audit.drafts import ReservationKey, StoredRecord
from agtphost.audit.keyed import reservation_name
from agtphost.audit.verify import Report, verify_records
from agtphost.identity.keys import VerifyingKey
from agtphost.stores import Selection
from agtphost.stores.connection import connect
from agtphost.stores.record_reader import RecordReader
from tests.system.hosting import Host, sample

_ENDPOINT = """
method = "BOOK"
path = "/stay"
description = "Leaves one line in a file for each time it runs."
namespace = "reservations"
errors = []
required_scopes = ["booking:room"]

[handler]
type = "registered_function"
function = "handlers.stays.leave"

[semantic]
intent = "Leave a mark outside of the host."
actor = "agent"
outcome = "The file has one more line."
capability = "transaction"
confidence = 1.0
impact = "irreversible"
is_idempotent = false

[input_schema]
type = "object"
additionalProperties = false
required = ["mark"]

[input_schema.properties]
mark = { type = "string", maxLength = 100 }
seconds = { type = "number", minimum = 0 }
blocking = { type = "number", minimum = 0 }
awaited = { type = "string" }
padding = { type = "string" }

[output_schema]
type = "object"
additionalProperties = true
required = ["mark"]

[output_schema.properties]
mark = { type = "string" }
"""

_HANDLER = '''
"""BOOK /stay: each run leaves one line, written before anything else happens."""

import os
import time
from pathlib import Path

from twisted.internet.task import deferLater

_trail = os.open(Path(__file__).with_name("trail.log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


async def leave(ctx):
    os.write(_trail, f"{ctx.input['mark']}\\n".encode())
    time.sleep(ctx.input.get("blocking", 0))
    seconds, awaited = ctx.input.get("seconds", 0), ctx.input.get("awaited")
    if seconds or awaited:
        from twisted.internet import reactor

        await deferLater(reactor, seconds)
        while awaited and not Path(__file__).with_name(awaited).exists():
            await deferLater(reactor, 0.02)
    return dict(ctx.input)
'''


def traced(directory: Path, *, append: str = "", eager: bool = False) -> Path:
    """
    Return the sample deployment with ``BOOK /stay``; see :func:`tests.system.hosting.sample`.

    A call with ``awaited`` ends once :func:`finish` has made the file of that name.
    """
    config = sample(directory, append=append, eager=eager)
    (config.parent / "endpoints" / "stays.toml").write_text(_ENDPOINT)
    (config.parent / "handlers" / "stays.py").write_text(_HANDLER)
    return config


def marks(config: Path) -> Counter[str]:
    """How often the handler ran, by mark."""
    file = config.parent / "handlers" / "trail.log"
    return Counter(file.read_text().splitlines()) if file.exists() else Counter()


def finish(config: Path, name: str) -> None:
    """Let the calls end whose ``awaited`` is this name."""
    (config.parent / "handlers" / name).touch()


def database(host: Host) -> Path:
    """Where the sample deployment's store is."""
    return host.state / "agtphost.sqlite3"


def keys(host: Host) -> dict[str, VerifyingKey]:
    """The key that records are signed with."""
    key = VerifyingKey.load(host.state / "signing.pub")
    return {key.kid: key}


def stored(file: Path) -> list[StoredRecord]:
    """Every record, while the host runs or not."""
    return list(RecordReader(str(file), connect).records(Selection()))


def verified(host: Host, records: list[StoredRecord]) -> Report:
    """The walk over all chains, with the host's public key."""
    return verify_records(records, keys(host))


def reservations(file: Path) -> dict[bytes, bytes | None]:
    """What became of keyed requests: the stored result by name, None where it is in doubt."""
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as connection:
        return dict(connection.execute("SELECT name, result FROM reservation").fetchall())


def name_of(agent_id: str, key: str) -> bytes:
    """The name of a keyed request in :func:`reservations`."""
    return reservation_name(ReservationKey(agent_id=agent_id, key=key))
