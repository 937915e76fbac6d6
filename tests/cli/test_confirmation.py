"""``agtp call`` asks before what cannot be undone, on a terminal and where an agent says how sure it is."""

from __future__ import annotations

import json

import pytest

from agtphost.cli import confirmation
from tests.agis.documents import DOCUMENT, changed
from tests.cli.conftest import Run
from tests.cli.server import AgtpServer, Answer

CALL = ("call", "-", "BOOK", "/reservation", "party_size:=2")


@pytest.fixture
def told(server: AgtpServer) -> AgtpServer:
    """A server that says of itself that BOOK cannot be undone."""
    final = changed(("endpoints.0.semantic.impact_tier", "irreversible"))
    server.answers["DISCOVER", "/"] = Answer(None, raw=json.dumps(final).encode(), kind="application/agis")
    server.answers["BOOK", "/reservation"] = Answer({"result": {"reservation_id": "r-1"}})
    return server


def methods(server: AgtpServer) -> list[str]:
    """What has arrived."""
    return [each.request.method for each in server.seen]


def test_scripts_are_as_they_were(told: AgtpServer, run: Run) -> None:
    """Nobody can be asked, and nothing is said of confidence: the one request is sent."""
    done = run(*CALL)
    assert done.exit_code == 0 and methods(told) == ["BOOK"]


def test_an_agent_that_says_how_sure_it_is(told: AgtpServer, run: Run) -> None:
    """AGIS-023: what cannot be undone is refused however sure it is, and nothing is sent; --yes has been asked."""
    done = run(*CALL, "--confidence", "0.99")
    assert done.exit_code == 2 and methods(told) == ["DISCOVER"]
    assert "BOOK /reservation was not sent: it cannot be undone, says the server." in done.stderr
    assert "then add --yes" in done.stderr
    assert told.seen[0].request.headers.get("accept").startswith("application/agis")
    assert run(*CALL, "--confidence", "0.99", "--yes").exit_code == 0


def test_a_person_is_asked(told: AgtpServer, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """AGIS-023: on a terminal, with what the service says of it; no is no, and yes is asked once a call."""
    monkeypatch.setattr(confirmation, "_terminal", lambda: True)

    def answered(word: str) -> tuple[int, str]:
        from click.testing import CliRunner

        from agtphost.cli.root import agtp

        done = CliRunner().invoke(agtp, list(CALL), input=f"{word}\n", prog_name="agtp")
        return done.exit_code, done.stderr

    status, said = answered("n")
    assert status == 1 and methods(told) == ["DISCOVER"]
    assert "intent: Books a table" in said and "Make this call?" in said and "Nothing was sent" in said
    assert answered("y")[0] == 0 and methods(told) == ["DISCOVER", "DISCOVER", "BOOK"]


def test_a_document_that_does_not_conform(told: AgtpServer, run: Run) -> None:
    """AGIS-053: nothing of it is used, so that what is grave by its method is asked about."""
    broken = {**DOCUMENT, "vocabulary": {"declared_verbs": ["TRANSFER"]}}
    told.answers["DISCOVER", "/"] = Answer(None, raw=json.dumps(broken).encode(), kind="application/agis")
    done = run("call", "-", "TRANSFER", "/funds", "--confidence", "1")
    assert done.exit_code == 2 and methods(told) == ["DISCOVER"]
    assert "nothing that the server says of it can be used" in done.stderr and "AGIS-P7-un" in done.stderr
