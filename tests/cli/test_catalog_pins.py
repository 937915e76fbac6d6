"""``agtp catalog fetch``, ``pin``, ``validate`` and ``negotiate``: AGTP-API sections 4 and 16.5."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from agtphost.identity.certificates import create_authority
from agtphost.vocabulary.catalog_files import MAX_OCTETS
from agtphost.vocabulary.catalog_pin import Pin, place
from tests.cli.conftest import Run
from tests.cli.server import AgtpServer, Answer
from tests.vocabulary.test_catalog_set import document


def octets(version: str, **verbs: Any) -> bytes:
    return json.dumps(document(version, **verbs)).encode()


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()


class Publisher:
    """An HTTPS server with the deployment's certificate; ``pages`` maps paths to contents or redirects."""

    def __init__(self, state: Path) -> None:
        self.pages: dict[str, bytes | str] = {}
        self.asked: list[str] = []
        publisher = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                publisher.asked.append(self.path)
                page = publisher.pages.get(self.path)
                if isinstance(page, bytes):
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(page)))
                    self.end_headers()
                    with contextlib.suppress(OSError):
                        self.wfile.write(page)
                    return
                self.send_response(404 if page is None else 302)
                if page is not None:
                    self.send_header("Location", page)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *arguments: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(state / "server.pem", state / "server.key")
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def uri(self) -> str:
        return f"https://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Publisher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join(5)
        self._server.server_close()


@pytest.fixture
def publisher(folder: Path) -> Iterator[Publisher]:
    """Publishes catalog 1.1.0 as /methods.json."""
    with Publisher(folder / "state") as running:
        running.pages["/methods.json"] = octets("1.1.0")
        yield running


def fetched(run: Run, publisher: Publisher, *words: str) -> Any:
    return run("catalog", "fetch", f"{publisher.uri}/methods.json", "--cacert", "state/ca.pem", *words)


def test_a_catalog_is_fetched_verified_and_pinned(run: Run, folder: Path, publisher: Publisher) -> None:
    """API-025: HTTPS, a SHA-256 from elsewhere, and a pin beside the file."""
    content = octets("1.1.0")
    done = fetched(run, publisher, "--sha256", digest(content).upper(), "--json")
    assert done.exit_code == 0, done.output
    assert (folder / "methods.json").read_bytes() == content
    assert Pin.load_for(folder / "methods.json") == Pin.for_catalog(content)
    answer = json.loads(done.stdout)
    assert (answer["version"], answer["replaced"], answer["changed"]) == ("1.1.0", None, True)
    again = fetched(run, publisher)
    assert (again.exit_code, "was pinned already" in again.stdout) == (0, True)


def test_nothing_is_fetched_without_a_hash(run: Run, folder: Path, publisher: Publisher) -> None:
    """API-025: what the server itself would vouch for is no integrity check; not even a connection is made."""
    assert fetched(run, publisher).exit_code == 2
    assert fetched(run, publisher, "--sha256", "abc").exit_code == 2
    assert publisher.asked == []


def test_another_content_is_refused(run: Run, folder: Path, publisher: Publisher) -> None:
    """API-025: a wrong hash changes nothing, exit 4."""
    done = fetched(run, publisher, "--sha256", "0" * 64)
    assert (done.exit_code, (folder / "methods.json").exists()) == (4, False)


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1/methods.json", "ftp://x/y", "methods.json", "https://u:p@h/m", "https:///m", "https://h/a b"],
)
def test_only_plain_https_urls_are_taken(run: Run, folder: Path, url: str) -> None:
    """API-025: http:// is refused before anything is sent."""
    assert run("catalog", "fetch", url, "--sha256", "0" * 64).exit_code == 2


def test_an_upgrade_needs_approval(run: Run, folder: Path, publisher: Publisher) -> None:
    """API-025: the pinned version is never replaced silently; approved, what was removed is remembered."""
    old, new = octets("1.1.0"), octets("2.0.0", AUDIT=None)
    assert fetched(run, publisher, "--sha256", digest(old)).exit_code == 0
    publisher.pages["/methods.json"] = new
    assert fetched(run, publisher).exit_code == 4
    refused = fetched(run, publisher, "--sha256", digest(new))
    assert (refused.exit_code, "--upgrade" in refused.stderr) == (1, True)
    assert (folder / "methods.json").read_bytes() == old
    assert Pin.load_for(folder / "methods.json") == Pin.for_catalog(old)
    done = fetched(run, publisher, "--sha256", digest(new), "--upgrade", "--json")
    answer = json.loads(done.stdout)
    assert (answer["version"], answer["replaced"], answer["removed"]) == ("2.0.0", "1.1.0", ["AUDIT"])
    assert any("without having been deprecated" in sentence for sentence in answer["violations"])
    assert Pin.load_for(folder / "methods.json") == Pin.for_catalog(new, ["AUDIT"])


def test_a_tampered_file_is_restored_from_its_publisher(run: Run, folder: Path, publisher: Publisher) -> None:
    """The pin says what is right, so fetching it again needs no hash."""
    fetched(run, publisher, "--sha256", digest(octets("1.1.0")))
    (folder / "methods.json").write_bytes(octets("9.9.9"))
    assert fetched(run, publisher).exit_code == 0
    assert (folder / "methods.json").read_bytes() == octets("1.1.0")


def test_strangers_are_not_trusted(run: Run, folder: Path, publisher: Publisher) -> None:
    """Without its authority the server is refused, and so it is with another one: exit 3."""
    words = ("catalog", "fetch", f"{publisher.uri}/methods.json", "--sha256", digest(octets("1.1.0")))
    assert run(*words).exit_code == 3
    stranger = create_authority(now=datetime.now(UTC), organization="Somebody else")
    (folder / "other.pem").write_bytes(stranger.certificate.public_bytes(Encoding.PEM))
    assert run(*words, "--cacert", "other.pem").exit_code == 3
    assert publisher.asked == []


@pytest.mark.parametrize(
    ("page", "status"),
    [("https://127.0.0.1:1/other", 1), (None, 1), (b"{}", 2), (b"\x00" * (MAX_OCTETS + 1), 1)],
    ids=["redirect", "missing", "no catalog", "huge"],
)
def test_what_is_no_catalog_is_not_kept(
    run: Run, folder: Path, publisher: Publisher, page: bytes | str | None, status: int
) -> None:
    """Redirects, errors, other documents and floods leave the directory as it was."""
    publisher.pages = {} if page is None else {"/methods.json": page}
    done = fetched(run, publisher, "--sha256", digest(page) if isinstance(page, bytes) else "0" * 64)
    assert done.exit_code == status, done.output
    assert not (folder / "methods.json").exists()


# pin


def test_a_local_file_is_pinned_and_changed_only_with_approval(run: Run, folder: Path) -> None:
    """API-025: the operator's own catalogs, too."""
    file = folder / "own.json"
    file.write_bytes(octets("1.2.0"))
    assert run("catalog", "pin", "own.json", "--sha256", "0" * 64).exit_code == 4
    assert run("catalog", "pin", "own.json").exit_code == 0
    file.write_bytes(octets("1.3.0"))
    refused = run("catalog", "pin", "own.json", "--json")
    assert refused.exit_code == 1
    assert json.loads(refused.stdout)["pinned"] == "1.2.0"
    assert run("catalog", "pin", "own.json", "--upgrade").exit_code == 0
    pin = Pin.load_for(file)
    assert pin is not None and pin.version == "1.3.0"


@pytest.mark.parametrize("content", [b"", b"{}", b"[", None])
def test_what_is_no_catalog_is_not_pinned(run: Run, folder: Path, content: bytes | None) -> None:
    """Exit 2, and no pin."""
    if content is not None:
        (folder / "own.json").write_bytes(content)
    assert run("catalog", "pin", "own.json").exit_code == 2
    assert not place(folder / "own.json").exists()


def test_a_damaged_pin_is_not_taken_for_none(run: Run, folder: Path) -> None:
    """Fail closed: nothing is approved over it."""
    (folder / "own.json").write_bytes(octets("1.2.0"))
    place(folder / "own.json").write_bytes(b"{}")
    assert run("catalog", "pin", "own.json", "--upgrade").exit_code == 2


# validate and show --document


def test_a_sound_catalog_is_said_to_be(run: Run, folder: Path) -> None:
    """API-003: the shipped one, and one from standard input."""
    shipped = json.loads(run("catalog", "validate", "--json").stdout)
    assert (shipped["valid"], shipped["violations"]) == (True, [])
    assert run("catalog", "validate", "-", input=octets("1.2.0")).exit_code == 0


def test_a_broken_catalog_is_refused_with_every_fault(run: Run, folder: Path) -> None:
    """API-003, API-005: each with its place, exit 2."""
    broken = document("1.2.0", AUDIT={"categories": ["magic"]}, DO_IT={})
    (folder / "broken.json").write_text(json.dumps(broken))
    done = run("catalog", "validate", "broken.json", "--json")
    faults = json.loads(done.stdout)["faults"]
    assert done.exit_code == 2
    assert [fault.split(" ")[0] for fault in faults] == ["verbs.AUDIT.categories", "verbs.DO_IT"]


@pytest.mark.parametrize(
    ("version", "verbs", "said"),
    [
        ("1.2.0", {"AUDIT": None}, "need a MAJOR step"),
        ("1.1.1", {"ZIP": {}}, "need a MINOR step"),
        ("1.0.0", {}, "is lower than"),
        ("1.2.0", {"AUDIT": {"deprecated_in": "1.3.0"}}, "which is later than 1.2.0"),
        ("1.2.0", {"AUDIT": {"deprecated_in": "1.2.0", "removed_in": "1.3.0"}}, "not a MAJOR step after"),
        ("2.0.0", {"AUDIT": {"deprecated_in": "1.1.5", "removed_in": "2.0.0"}}, "is still in 2.0.0"),
    ],
)
def test_version_rules_are_checked(run: Run, folder: Path, version: str, verbs: dict[str, Any], said: str) -> None:
    """API-010: told always, an error with --strict."""
    (folder / "old.json").write_bytes(octets("1.1.0"))
    (folder / "new.json").write_bytes(octets(version, **verbs))
    words = ("catalog", "validate", "new.json", "--previous", "old.json")
    done = run(*words, "--json")
    assert done.exit_code == 0
    assert any(said in sentence for sentence in json.loads(done.stdout)["violations"])
    assert run(*words, "--strict").exit_code == 1


def test_deprecation_metadata_may_be_partial(run: Run, folder: Path) -> None:
    """API-011: deprecated_in alone is sound, and breaks no rule."""
    (folder / "new.json").write_bytes(octets("1.2.0", AUDIT={"deprecated_in": "1.2.0"}))
    answer = json.loads(run("catalog", "validate", "new.json", "--json").stdout)
    assert (answer["deprecated"], answer["violations"]) == (["AUDIT"], [])


def test_the_document_is_printed_as_it_is(run: Run, folder: Path) -> None:
    """API-001, API-002: five members, eighteen embedded methods, five legacy verbs."""
    shown = json.loads(run("catalog", "show", "--document").stdout)
    assert set(shown) == {"version", "embedded", "legacy", "categories", "verbs"}
    assert len(shown["embedded"]) == 18
    preferred = {verb: entry["preferred"] for verb, entry in shown["legacy"].items()}
    assert preferred == {"GET": "FETCH", "POST": "CREATE", "PUT": "REPLACE", "DELETE": "REMOVE", "PATCH": "MODIFY"}
    assert run("catalog", "validate", "-", input=json.dumps(shown)).exit_code == 0


# negotiate


@pytest.mark.parametrize(
    ("words", "status", "version"),
    [
        (("--prefer", "1.2.0"), 0, "1.0.0"),
        (("--prefer", "2.0.0"), 1, None),
        (("--prefer", "2.0.0", "--known", "1.0.0"), 0, "1.0.0"),
        (("--prefer", "new"), 2, None),
    ],
)
def test_a_version_is_negotiated(
    run: Run, server: AgtpServer, words: tuple[str, ...], status: int, version: str | None
) -> None:
    """API-020: preferred 1.2.0 against a server of 1.0.0 is 1.0.0; nothing in common is an error."""
    server.answers["DISCOVER", "/"] = Answer({"catalog_versions_supported": ["1.0.0"]})
    done = run("catalog", "negotiate", *words, "--json")
    assert done.exit_code == status, done.output
    if status < 2:
        assert json.loads(done.stdout)["version"] == version
