"""The sample recipe, called over TLS as a user would (API-126, API-127, API-128)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.system.hosting import Host, running, sample

STAY = ("isbn=978-0-14-143951-8", "arrival=2026-12-01", "departure=2026-12-03")


def refused(host: Host, *words: str) -> dict[str, Any]:
    """The body of a call that the host refuses."""
    done = host.agtp("call", "--config", str(host.config), host.uri, *words, "--json")
    assert done.returncode == 1, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["body"]
    return found


def test_an_endpoint_made_of_two_others(tmp_path: Path) -> None:
    """One call, two steps, three records; then each way in which it is refused."""
    with running(sample(tmp_path)) as host:
        words = ("call", "--config", str(host.config), host.uri, "BOOK", "/reading")
        reply = host.agtp_json(*words, *STAY, "--task-id", "reading-1")
        assert reply["body"]["result"]["title"] == "Pride and Prejudice"
        assert reply["body"]["result"]["nights"] == 2

        # The room is taken now: the failure tells the step, and what was found before it.
        details = refused(host, "BOOK", "/reading", *STAY)["details"]
        assert (details["recipe"], details["step"], details["method"]) == ("reading-stay", 2, "BOOK")
        assert (details["status"], details["reason"]) == (422, "room_unavailable")
        assert details["captured"]["book"]["author"] == "Jane Austen"

        # No such book: the room is not even asked for.
        unknown = refused(host, "BOOK", "/reading", "isbn=9999999999999", "arrival=2027-01-01", "departure=2027-01-02")
        assert (unknown["details"]["step"], unknown["details"]["reason"]) == (1, "book_unknown")

        # The caller must hold what the steps need, before the first one.
        narrow = refused(host, "BOOK", "/reading", *STAY, "--scope", "documents:query")
        assert (narrow["status"], narrow["reason"], narrow["missing_scopes"]) == (
            262,
            "scope-required",
            ["booking:room"],
        )

        # Lists show the kind of binding, the union of scopes, and nothing of the recipe (AGTP-API section 8.9).
        manifest = host.agtp_json("call", "--config", str(host.config), host.uri, "DISCOVER", "/methods")
        assert "reading-stay" not in json.dumps(manifest)
    assert "Traceback" not in host.output
