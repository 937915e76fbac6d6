"""What foreign libraries say of a wrong setting or argument is put into our words, and kept for ``--json``."""

from __future__ import annotations

import inspect
import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from twisted.internet import reactor
from twisted.internet.defer import TimeoutError
from twisted.logger import formatEvent, globalLogPublisher

from agtphost import extras
from agtphost.client.tls import to_refusal
from agtphost.config import load
from agtphost.errors import ConfigurationError, Problem
from agtphost.host.start_failure import StandardError
from agtphost.http.tls import https_options, names_of
from agtphost.protocols.listener import server_endpoint
from agtphost.protocols.tls import ServerTLS
from agtphost.stores import StoreError, open_reader, open_store
from agtphost.stores.dry_run_store import rehearse_store
from agtphost.stores.postgres.error_texts import explain_error
from agtphost.vocabulary import tomltext
from agtphost.vocabulary.foreign_errors import explain, explain_json_message, original_of, with_original
from tests.cli.conftest import Run
from tests.rows import each_row

FOREIGN = re.compile(
    r"Errno|No such file|Is a directory|Not a directory|Permission denied|Connection refused|Address already|"
    r"codec can't|No closing|Invalid value|No such option|Missing (option|argument)|not in the range|"
    r"Got unexpected|Expecting|MalformedFraming|SSL routines|_ssl\.c|not a database|disk I/O|invalid literal|"
    r"did not find expected|not known"
)
"""Words of OpenSSL, SQLite, Python, Click and the system."""


class Command(NamedTuple):
    """A wrong command line: what it prints, and what ``--json`` keeps of the library's words."""

    words: str
    says: str
    original: str
    status: int = 2


COMMANDS = {
    "unknown option": Command("key show x.pem --foo", "agtp key show has no option --foo", "No such option"),
    "unknown command": Command("audit gett", r"has no command 'gett'\n.*Did you mean get", "No such command"),
    "missing argument": Command("genesis verify", "FILE is missing\n.*Write: agtp genesis verify", "Missing argument"),
    "missing option": Command("restore x.zip", "--to is missing\n.*Add --to", "Missing option"),
    "option without value": Command("call agtp://x DISCOVER --timeout", "--timeout needs a value", "requires an arg"),
    "option with value": Command("check --wide=3", "has no option --wide", "No such option"),
    "number": Command(
        "call agtp://x DISCOVER --timeout soon",
        "--timeout must be a number from 0.1 to 86400, not 'soon'",
        "valid float",
    ),
    "range": Command("init x --port 99999", "--port must be a whole number from 1 to 65535, not 99999", "in the range"),
    "choice": Command("completion csh", "SHELL must be one of 'bash', 'zsh', 'fish', not 'csh'", "is not one of"),
    "further argument": Command("check a b", "does not take the further argument 'b'", "Got unexpected"),
    "no file": Command(
        "genesis verify none.json", "none.json cannot be read: it does not exist\n.*Correct the", "Errno 2"
    ),
    "directory": Command("cert show .", r"\. cannot be read: it is a directory\n  Name a file", "IsADirectoryError"),
    "authority that is a directory": Command(
        "call agtp://127.0.0.1:1 DISCOVER --cacert .", "certificate is a directory: .*Name a file in PEM", ""
    ),
    "URL": Command(
        "openapi import https://example.com/api.json", "api.json is a URL, and a file is needed\n.*curl", "Errno 2"
    ),
    "path through a file": Command(
        "key new text.pem/x", "text.pem/x cannot be written: a part of its path", "Errno 20"
    ),
    "binary key": Command("key show binary", "binary: it is not ASCII .octet 0.", "UnicodeDecodeError"),
    "JSON": Command("manifest validate text.pem", "is not JSON: a value is expected", "JSONDecodeError: Expecting"),
    "YAML": Command("openapi import bad.yaml", "a value is expected, or a bracket is not closed .line", "ParserError"),
    "binary mcp.json": Command("init y --import binary", "is not UTF-8 .octet 0.", "UnicodeDecodeError"),
    "shell words": Command(
        """init y --mcp a="b""", "command of --mcp a cannot be read: a quotation mark", "No closing"
    ),
    "nothing listens": Command("call agtp://127.0.0.1:1 DISCOVER --no-cert", "nothing listens there", "Errno 111", 3),
    "no address": Command("call agtp://none.invalid DISCOVER --no-cert", "its name has no address", "gaierror", 3),
    "authority": Command(
        "conformance agtp://127.0.0.1:1 --cacert text.pem", "cannot be used: it holds no PEM certificate", "X509", 3
    ),
    "registry": Command(
        "registry ls --registry https://127.0.0.1:1", "cannot be reached: nothing listens", "Errno 111", 3
    ),
    "registry's authority": Command(
        "registry ls --registry https://127.0.0.1:1 --cacert text.pem",
        "--cacert text.pem cannot be used: it holds no PEM certificate",
        "X509",
    ),
    "no host.toml": Command("check none.toml", "the file cannot be read: it does not exist", "FileNotFoundError"),
    "TOML": Command("check text.pem", "is not TOML: the key is not followed by = and a value", "Expected '='"),
    "TOML value": Command("check bad.toml", "is not TOML: the value is not text in quotes", "Invalid value"),
}


@each_row("name", COMMANDS)
def test_a_wrong_argument_is_answered_in_our_words(run: Run, folder: Path, name: str) -> None:
    """The text names the value and the way out; the library's words are in the member ``original`` alone."""
    (folder / "text.pem").write_text("hello\n")
    (folder / "binary").write_bytes(b"\xff\xfe\x00")
    (folder / "bad.yaml").write_text("a: [\n")
    (folder / "bad.toml").write_text("[host]\na = yes please\n")
    row = COMMANDS[name]
    words = row.words.split()
    plain = run(*words)
    assert plain.exit_code == row.status, plain.output
    assert re.search(row.says, plain.stderr, re.DOTALL) and not FOREIGN.search(plain.stderr), plain.stderr
    assert plain.stdout == ""
    last = words.pop()
    as_json = run(*words, "--json", last) if last.startswith("--") else run(*words, last, "--json")
    assert as_json.exit_code == row.status, as_json.output
    answer = json.loads(as_json.stdout)
    (problem,) = answer.get("problems", [answer])
    assert not FOREIGN.search(json.dumps({**problem, "original": ""})), answer
    assert row.original in problem.get("original", ""), answer


@each_row(
    ("reason", "verification", "says"),
    [
        ("certificate verify failed", "certificate has expired", "certificate is not trusted: it has expired"),
        ("certificate verify failed", "self-signed certificate in certificate chain", "no authority that is trusted"),
        ("certificate verify failed", "unable to get local issuer certificate", "no authority that is trusted"),
        ("TLSV1_ALERT_UNKNOWN_CA", "", "refused this client: it does not trust the authority"),
        ("sslv3 alert certificate expired", "", "the client certificate has expired"),
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "", "it wants a client certificate"),
        ("tlsv1 alert internal error", "", "The TLS handshake failed."),
    ],
)
def test_a_failed_handshake_is_answered_in_our_words(reason: str, verification: str, says: str) -> None:
    """The words of OpenSSL's verification and alerts are not shown."""
    refused = to_refusal(reason, verification)
    assert says in str(refused) and not FOREIGN.search(str(refused)) and refused.remedy
    assert "self-signed" not in str(refused) and "local issuer" not in str(refused)


class Setting(NamedTuple):
    """A wrong setting: what reads it, what it answers, and what it keeps of the library's words."""

    read: Callable[[Path], Any]
    says: str
    original: str


def read_tls(folder: Path, **changed: str) -> object:
    """Read a host's TLS files after some of them were replaced."""
    for name, text in changed.items():
        (folder / "state" / name.replace("_", ".")).write_text(text)
    return ServerTLS.load(load(folder / "host.toml", {}).tls)


def encrypted_key() -> str:
    """Return the PEM of a private key with a passphrase."""
    encryption = serialization.BestAvailableEncryption(b"secret")
    pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    )
    return pem.decode("ascii")


def make_directory(folder: Path) -> Path:
    """Make a directory that a setting names instead of a file."""
    (folder / "made").mkdir(exist_ok=True)
    return folder / "made"


def write_text(folder: Path) -> Path:
    """Write a text that a setting names instead of a file of another kind."""
    (folder / "text.pem").write_text("hello, this is no file of the kind\n")
    return folder / "text.pem"


SETTINGS = {
    "[tls] certificate: empty": Setting(
        lambda at: read_tls(at, server_pem=""), "server.pem: is empty .name a file", "PEM"
    ),
    "[tls] certificate: text": Setting(
        lambda at: read_tls(at, server_pem="x"), "holds no PEM certificate .name", "PEM"
    ),
    "[tls] client_ca: empty": Setting(lambda at: read_tls(at, ca_pem=""), "ca.pem: is empty .name a file", "PEM"),
    "[tls] key: text": Setting(
        lambda at: read_tls(at, server_key="x"), "server.key: does not hold the private key", "PEM"
    ),
    "[tls] key: with a passphrase": Setting(
        lambda at: read_tls(at, server_key=encrypted_key()),
        "server.key: cannot be used: the key has a passphrase .remove it: openssl pkey",
        "TypeError: Password was not given",
    ),
    "HTTPS certificate: text": Setting(
        lambda at: names_of(write_text(at)), "it holds no PEM text .name a PEM", "PEM file"
    ),
    "HTTPS certificate: directory": Setting(
        lambda at: names_of(make_directory(at)), "it is a directory .name a file", "IsADirectoryError"
    ),
    "HTTPS key: another's": Setting(
        lambda at: https_options(at / "state" / "server.pem", at / "state" / "ca.key"),
        "the key is not the certificate's .name the key made with",
        "OpenSSL.SSL.Error",
    ),
    "[store] url: text": Setting(
        lambda at: open_store(f"sqlite:{write_text(at)}", create=False),
        "it is not a SQLite database. Restore",
        "sqlite3.",
    ),
    "[store] url: directory": Setting(
        lambda at: open_store(f"sqlite:{make_directory(at)}", create=False),
        "it is a directory; name a file",
        "sqlite3.",
    ),
    "[store] url: text, read": Setting(
        lambda at: open_reader(f"sqlite:{write_text(at)}"), "it is not a SQLite database", "sqlite3."
    ),
    "[store] url: directory, agtp check": Setting(
        lambda at: rehearse_store(make_directory(at), create=False, aside=at),
        "it is a directory; name a file",
        "sqlite3.",
    ),
    "[listen] endpoint: port": Setting(
        lambda at: server_endpoint(reactor, address="", port=0, description="tcp:x"),
        "'tcp:x' is not an endpoint description: a number is expected; write digits",
        "ValueError: invalid literal",
    ),
    "[listen] endpoint: unknown part": Setting(
        lambda at: server_endpoint(reactor, address="", port=0, description="tcp:1:foo=bar"),
        "is not an endpoint description: a part of it is unknown or missing",
        "unexpected keyword",
    ),
}
"""By the setting, and what is there instead."""


@each_row("name", SETTINGS)
def test_a_wrong_setting_is_answered_in_our_words(folder: Path, name: str) -> None:
    """The text says what is there, and the original is kept with the problem, or behind the error."""
    row = SETTINGS[name]
    backup = {file: file.read_bytes() for file in (folder / "state").iterdir() if file.is_file()}
    with pytest.raises((ConfigurationError, StoreError)) as caught:
        row.read(folder)
    for file, octets in backup.items():
        file.write_bytes(octets)
    assert re.search(row.says, str(caught.value)) and not FOREIGN.search(str(caught.value)), caught.value
    problems = getattr(caught.value, "problems", ())
    original = problems[0].original if problems else original_of(caught.value)
    assert row.original in original, original


DATABASES = {
    "postgresql://u@127.0.0.1:1/x": ("nothing listens there; start the server", "onnection refused"),
    "postgresql://u@127.0.0.1:port/x": ("port must be a whole number, not 'port'", "invalid integer value"),
    "postgresql://u@127.0.0.1:99999/x": ("the port must be a number from 1 to 65535, not '99999'", "invalid port"),
    "postgresql://u@127.0.0.1/x?foo=bar": ("its option foo is unknown; correct or remove it", "invalid URI query"),
    "postgresql://u@127.0.0.1/x?sslmode=nope": ("sslmode cannot be 'nope'", "invalid sslmode"),
    "postgresql://u@127.0.0.1/x?connect_timeout=soon": ("connect_timeout must be a whole number", "bad value"),
    "postgresql:///x?host=/nowhere": ("nothing listens on the socket /nowhere/.s.PGSQL.5432", "No such file"),
    "postgresql://u@none.invalid/x?sslmode=disable": ("its host name has no address", "resolve host"),
}
"""URLs of databases that cannot be reached: what is answered, and what psycopg says."""


@pytest.mark.skipif(not extras.is_installed("psycopg"), reason=extras.missing("psycopg"))
@each_row("url", DATABASES)
def test_a_database_that_cannot_be_reached_is_answered_in_our_words(url: str) -> None:
    """The text names the part of the URL; what psycopg says is kept with the error."""
    from agtphost.stores.postgres.connection import Address, dial

    says, original = DATABASES[url]
    with pytest.raises(StoreError) as caught:
        dial(Address(url=url), writer=False)
    assert says in str(caught.value) and "[store] url" in str(caught.value), caught.value
    assert original not in str(caught.value) and original in original_of(caught.value)


STATES = {
    'FATAL: password authentication failed for user "u"': ("28P01", "[store] password"),
    'FATAL: role "u" does not exist': ("28000", "the server has no user u; create it"),
    'database "x" does not exist': ("3D000", "the server has no database x; create it"),
    "permission denied for schema public": ("42501", "the user has no right to use the schema public; grant it"),
    'column "schema" does not exist': ("42703", "a separate schema in [store] url: ?options=-csearch_path%3DNAME"),
    'relation "store" already exists': ("42P07", "a separate schema in [store] url: ?options=-csearch_path%3DNAME"),
    'relation "record" does not exist': ("42P01", "restore the database from a backup"),
    "FATAL: connection requires a valid client certificate": ("", "sslcert=FILE and sslkey=FILE"),
    'private key file "/k.pem" has group or world access; file must have ...': ("", "run: chmod 600 /k.pem"),
    'FATAL: too many connections for role "u"': ("53300", "the role u has no connection left; raise its CONNECTION"),
    "FATAL: unsupported startup parameter: options": ("", "set ignore_startup_parameters = options"),
    "FATAL: bouncer config error": ("", "the pooler there has no such database"),
    "FATAL: no more connections allowed (max_client_conn)": ("", "raise its max_client_conn"),
    "consuming input failed: SSL error: unexpected eof while reading": ("", "the server closed the connection"),
    "consuming input failed: SSL SYSCALL error: EOF detected": ("", "the server closed the connection"),
    "query_wait_timeout": ("08P01", "start the server, or raise the pooler's default_pool_size"),
    'on socket "/b" failed: session is read-only ... on socket "/a" failed: No such file': ("", "on the socket /a; "),
}
"""What a server says, with its SQLSTATE: what is answered."""


@each_row("text", STATES)
def test_what_a_database_refuses_is_answered_in_our_words(text: str) -> None:
    """A user without rights, a missing database or table: the text says what to do."""
    state, says = STATES[text]
    assert says in explain_error(text, state)
    assert explain_error("duplicate key value", "23505") == "duplicate key value", "no setting causes that"


def test_the_log_of_a_start_has_the_original(capfd: pytest.CaptureFixture[str]) -> None:
    """A host that cannot start prints our text, and logs what the library said."""
    events: list[dict[str, Any]] = []
    globalLogPublisher.addObserver(events.append)
    try:
        problem = Problem(
            message="it is not a SQLite database", original="sqlite3.DatabaseError: file is not a database"
        )
        StandardError().tell(Path("host.toml"), (problem,))
    finally:
        globalLogPublisher.removeObserver(events.append)
    assert FOREIGN.search(capfd.readouterr().err) is None
    assert any("file is not a database" in str(formatEvent(event)) for event in events)


def test_an_error_of_ours_keeps_its_text() -> None:
    """Only foreign texts are replaced, and only they count as an original."""
    assert explain(StoreError("the store is full")) == "the store is full"
    assert original_of(StoreError("the store is full")) == ""
    assert explain(ValueError("must be a URI")) == "must be a URI"
    assert with_original(StoreError("full")) == "StoreError('full')"


def test_a_deadline_is_answered_in_our_words() -> None:
    """Twisted tells that a Deferred timed out, and after how many seconds; a reader wants to know who was silent."""
    assert explain(TimeoutError(10.0, "Deferred")).startswith("it did not answer in time; ")


def test_no_text_of_a_parser_is_unknown() -> None:
    """Every text of Python's TOML and JSON parsers has a translation; another one is not shown."""
    for source in (tomllib._parser, json.decoder):
        text = inspect.getsource(source)
        found = set(re.findall(r'(?:suffixed_err\(\s*src, \w+, |JSONDecodeError\()f?"([^"{%]+)', text))
        assert len(found) > 3
        for message in found:
            explained = tomltext._explain(message) if source is tomllib._parser else explain_json_message(message)
            assert explained not in ("its syntax is wrong", "its syntax is not JSON"), message
