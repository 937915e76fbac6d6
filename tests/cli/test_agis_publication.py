"""``agtp agis import``, ``export`` and ``publish``: between AGIS documents and a host's endpoints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from agtphost.agis import validate
from agtphost.contract.declaration import Rules
from agtphost.contract.endpoint_loading import load_endpoints
from agtphost.vocabulary.catalog import Catalog
from tests.agis.documents import DOCUMENT
from tests.cli.conftest import Run
from tests.cli.server import AgtpServer, Answer
from tests.contract.declarations import SOUND

ENDPOINT = SOUND.replace('agents = ["librarian"]\n', "")


@pytest.fixture
def declared(folder: Path) -> Path:
    """A deployment with one endpoint; its folder of endpoints."""
    endpoints = folder / "endpoints"
    endpoints.mkdir()
    (endpoints / "rooms.toml").write_text(ENDPOINT)
    host = folder / "host.toml"
    host.write_text(host.read_text() + '[endpoints]\ndirectory = "endpoints"\n[agis]\ndomain = "hospitality"\n')
    return endpoints


def test_what_the_files_declare_is_exported_and_imported_again(declared: Path, run: Run) -> None:
    """AGIS-074: the host need not run; the import writes what no host loads, and loads once it is renamed."""
    done = run("agis", "export", "-o", "rooms.agis")
    assert done.exit_code == 0 and "1 endpoints, written to rooms.agis" in done.stderr
    assert validate(Path("rooms.agis").read_bytes()).conforms
    done = run("agis", "import", "rooms.agis", "--out", "new", "--json")
    said = json.loads(done.stdout)
    assert done.exit_code == 0 and said["agis"] == "1.0" and not said["loadable"]
    (file,) = Path("new").iterdir()
    assert file.name == said["endpoints"][0]["file"] == "book-rooms-room-id.toml.review"
    assert "# Derived from AGIS: BOOK /rooms/{room_id} of localhost." in file.read_text()
    rules = Rules(catalog=Catalog.load())
    assert load_endpoints(Path("new"), rules) == ([], [])
    file.rename("new/rooms.toml")
    (endpoint,), problems = load_endpoints(Path("new"), rules)
    assert endpoint.name == "BOOK /rooms/{room_id}" and not problems
    # Nothing is written over.
    file.write_text("mine")
    assert run("agis", "import", "rooms.agis", "--out", "new").exit_code == 2 and file.read_text() == "mine"


def test_with_functions_to_write(declared: Path, run: Run) -> None:
    """``--stubs`` writes the module that the declarations name."""
    assert run("agis", "export", "-o", "rooms.agis").exit_code == 0
    assert run("agis", "import", "rooms.agis", "--out", "new", "--stubs", "rooms_handlers.py").exit_code == 0
    source = Path("rooms_handlers.py").read_text()
    compile(source, "rooms_handlers.py", "exec")
    assert "def book_rooms_room_id(" in source
    assert "rooms_handlers.book_rooms_room_id" in next(Path("new").iterdir()).read_text()


def test_of_what_does_not_conform_nothing_is_made(folder: Path, run: Run) -> None:
    """AGIS-053: the first fault with its line; no file is written."""
    Path("bad.agis").write_text(yaml.safe_dump({**DOCUMENT, "vocabulary": {"declared_verbs": ["BOOK", "FIND"]}}))
    done = run("agis", "import", "bad.agis", "--out", "new")
    assert done.exit_code == 1 and "AGIS-P7-unused" in done.stderr and not Path("new").exists()


def test_what_cannot_be_said_is_left_out_and_told(declared: Path, run: Run) -> None:
    """AGIS-073: the export conforms, ``publish --check`` names file, line and rule, and its status says so."""
    done = run("agis", "publish", "--check")
    assert done.exit_code == 0 and "1 endpoints: the document conforms" in done.stdout
    assert "publish = true" in done.stdout
    broken = ENDPOINT.replace('path = "/rooms/{room_id}"', 'path = "/bookRoom/{room_id}"')
    (declared / "more.toml").write_text(broken)
    done = run("agis", "export", "--json")
    said = json.loads(done.stdout)
    assert done.exit_code == 0 and said["endpoints"] == 1 and "AGIS-P4-" in said["left_out"]["BOOK /bookRoom/{room_id}"]
    done = run("agis", "publish", "--check", "--json")
    said = json.loads(done.stdout)
    assert done.exit_code == 1 and not said["conforms"]
    problem = said["problems"][0]
    assert problem["file"].endswith("more.toml") and problem["line"] == 2 and "AGIS-P4-" in problem["message"]
    done = run("agis", "publish", "--check")
    assert done.exit_code == 1 and "more.toml:2: BOOK /bookRoom/{room_id}" in done.stdout


def test_the_document_of_a_host_is_examined_before_it_is_shown(server: AgtpServer, run: Run) -> None:
    """AGIS-053: one that conforms in its canonical form; nothing of another."""
    server.answers["DISCOVER", "/"] = Answer(None, raw=json.dumps(DOCUMENT).encode(), kind="application/agis")
    done = run("agis", "export", "-", "--built-ins")
    assert done.exit_code == 0 and yaml.safe_load(done.stdout)["endpoints"] == DOCUMENT["endpoints"]
    assert server.seen[0].input == {"format": "agis", "built_ins": True}
    assert json.loads(run("agis", "export", "-", "--to", "json").stdout)["service"] == "Tables"
    spoilt = {**DOCUMENT, "agis": "2.0"}
    server.answers["DISCOVER", "/"] = Answer(None, raw=json.dumps(spoilt).encode(), kind="application/agis")
    done = run("agis", "export", "-")
    assert done.exit_code == 4 and not done.stdout and "AGIS-P1-version" in done.stderr


def test_a_host_is_asked_what_it_publishes(declared: Path, server: AgtpServer, run: Run) -> None:
    """Without ``--check`` the running host's document has to conform as well."""
    server.answers["DISCOVER", "/"] = Answer(None, raw=json.dumps(DOCUMENT).encode(), kind="application/agis")
    done = run("agis", "publish")
    assert done.exit_code == 0
    assert "agtp://tables.example.com serves a document of 1 endpoints, which conforms" in done.stdout


def test_without_endpoints_there_is_no_document(folder: Path, run: Run) -> None:
    """It is said what is missing."""
    done = run("agis", "export")
    assert done.exit_code == 2 and "declares no endpoints" in done.stderr
