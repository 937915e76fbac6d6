"""One request that makes thousands of calls or stores megabytes, and one agent that takes what all share."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.attacks.attack import Target
from tests.attacks.catalogue.crowds import crowd, names
from tests.attacks.catalogue.held import SOURCE, kept
from tests.attacks.site import amend
from tests.attacks.strikes import said
from tests.system.raw_link import Answer, RawLink, client_context, request

PER_MINUTE = 60
OCTETS_PER_CALL = 8_000
"""Octets of the store's file that one charged call may cost."""

Parameters = Mapping[str, Any]

COLLECTIONS = """
[[methods.collection]]
name = "goods"
max_items = 10000

[[methods.collection]]
name = "crowded"
max_items = 200

[[methods.collection]]
name = "jobs"
queue = true
max_items = 400
"""


def sharing(folder: Path) -> None:
    """Few requests a minute, all standard methods, collections and a queue, and a dozen agents of other owners."""
    crowd(folder)
    amend(folder, "limits", f"requests_per_minute = {PER_MINUTE}")
    file = folder / "host.toml"
    members = ", ".join(f'"{agent_id}"' for agent_id in (_agent_id(folder / "state", name) for name in names()))
    with file.open("a") as config:
        config.write(f'\n[methods]\nstandard = "*"\nprocedures = {{ stay = "reading-stay" }}\n{COLLECTIONS}')
        config.write(f"\n[registry]\n\n[notify.groups]\neverybody = [{members}]\n")


def _agent_id(state: Path, name: str) -> str:
    return str(json.loads((state / "agents" / name / "document.json").read_text())["agent_id"])


class Caller:
    """One agent on one connection."""

    def __init__(self, target: Target, name: str) -> None:
        self._link = RawLink(target, context=client_context(target, agent=name), source=SOURCE)

    def ask(self, method: str, path: str = "/", given: Parameters | None = None, **headers: str) -> Answer:
        self._link.send(request(method, path, given, **headers))
        answer = said(self._link)
        assert answer is not None, f"the host closed the connection after {method} {path}"
        assert answer.status < 500, (answer.status, answer.reason)
        return answer

    def __enter__(self) -> Caller:
        self._link.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._link.close()


def records(target: Target) -> int:
    """How many there are."""
    return kept(target, "SELECT count(*) FROM record")


def octets(target: Target) -> int:
    """Of the store's file, with what is still in its log."""
    store = next(target.state.glob("*.sqlite3"), None) or next(target.state.rglob("*.db"))
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as database:
        pages, size = (database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
        return int(pages) * int(size)


# One request that is many calls


def card_batches(target: Target, seconds: float) -> None:
    """BATCH of a hundred batches of fifty inputs of a card, and each of its parts: never more than the rate."""
    with Caller(target, "crowd0") as caller:
        found = caller.ask("FIND", "/cards", {"query": "text"}).json()
        card = next(each for each in found["result"]["cards"] if "text" in json.dumps(each))
        print(card)
