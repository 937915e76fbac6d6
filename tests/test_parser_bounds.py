"""
No body of a stranger holds the reactor longer than 50 ms: every parser that meets octets from outside, at its size.

The table :data:`PARSERS` has each parser with inputs that are as hostile as its own limit lets through. CPU time of
this thread is measured, the best of six where the first is too long, against 50 ms times how much slower this machine
reads a known text than the one where the limits were chosen. :data:`READERS` names every module of the host that
imports or calls a parser: one that is added without an entry fails.
"""

from __future__ import annotations

import ast
import base64
import json
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from agtphost.adapters.mcp.long_lines import answered_id, find_call_id
from agtphost.contract.schemas import compile_schema
from agtphost.dispatch.gates import body as bodies
from agtphost.errors import Refusal, RemoteProtocolError
from agtphost.identity import cose, documents, genesis, jws, packages
from agtphost.identity.bearer import BearerTokens, read_keys
from agtphost.identity.intent import IntentAssertions
from agtphost.upstream.bodies import MAX_MESSAGE, EventStreamParser, LineSplitter, MessageTooLong
from agtphost.vocabulary import budget, jsontext, media_types, money, paths, scopes, uris, yamltext
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.catalog_files import parse_catalog
from agtphost.wire import Connection, Limits, Role
from tests.measuring import measured
from tests.rows import each_row
from tests.sources import nodes as nodes_in

MIB = 1 << 20
ROOT = Path(__file__).resolve().parent.parent / "agtphost"


def _filled(unit: bytes, size: int, begin: bytes = b"", end: bytes = b"") -> bytes:
    return begin + unit * ((size - len(begin) - len(end)) // len(unit)) + end


def _json(size: int) -> dict[str, bytes]:
    few = 45_000
    found = {
        "lists": _filled(b"[],", size, b"[", b"0]"),
        "objects": _filled(b"{},", size, b"[", b"0]"),
        "integers": _filled(b"1,", size, b"[", b"1]"),
        "fractions": _filled(b"1e9,", size, b"[", b"1]"),
        "strings": _filled(b'"",', size, b"[", b'""]'),
        "escapes": _filled(b"\\u00e9", size, b'"', b'"'),
        "surrogates": _filled(b"\\ud83d\\ude00", size, b'["', b'"]'),
        "backslashes": _filled(b"\\\\", size, b'["', b'"]'),
        "quotes": _filled(b'\\"', size, b'["', b'"]'),
        "open string": _filled(b"\\", size, b'["'),
        "depth": b"[" * size,
        "depth of objects": _filled(b'{"":', size),
        "digits": b"9" * size,
        "fraction": _filled(b"9", size, b"0."),
        "white space": _filled(b" ", size, b"", b"1"),
        "names": b"{" + b",".join(b'"%d":1' % at for at in range(size // 11)) + b"}",
        "commas in text": _filled(b",", size, b'"', b'"'),
    }
    allowed = {
        "allowed integers": b"[" + b"9007199254740991," * few + b"1]",
        "allowed objects": b"[" + b"{}," * few + b"1]",
        "allowed pairs": b"[" + b'{"a":1.5},' * (few // 3) + b"1]",
        "allowed names": b"{" + b",".join(b'"%d":1' % at for at in range(few // 2)) + b"}",
        "a name twice": b"{" + b",".join(b'"%d":1' % (at % (few // 2 - 1)) for at in range(few // 2)) + b"}",
    }
    return {**found, **{name: text for name, text in allowed.items() if len(text) <= size}}


def _texts(size: int) -> dict[str, bytes]:
    """
    What is honest at this size, a few long texts; and what no text is.

    Two are left out, which take twice as long: a text of escapes alone, and one with a single sign beyond the basic
    plane, which Python then keeps in four octets a sign (``docs/threats.rst``).
    """
    begin, end = b'{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"', b'"}]}}'
    return {
        "text": _filled(b"a", size, begin, end),
        "lines of text": _filled(b"It is a truth universally acknowledged, {that} [a] man,\\n", size, begin, end),
        "base64": _filled(b"QUJD", size, begin, end),
        "letters": _filled("\u00e9".encode(), size, begin, end),
        "ideographs": _filled("\u6f22".encode(), size, begin, end),
        "ten texts": b"[" + b",".join([_filled(b"a", size // 10 - 9, b'"', b'"')] * 10) + b"]",
        "lists": _filled(b"[],", size, b"[", b"0]"),
        "integers": _filled(b"1,", size, b"[", b"1]"),
        "white space": _filled(b" ", size, b"", b"1"),
        "digits": b"9" * size,
    }


def _yaml() -> dict[str, bytes]:
    size = yamltext.MAX_OCTETS
    units = {
        "brackets": b"[],", "sequence": b"- ", "questions": b"? ", "colons": b"a: ", "pairs": b"a: b\n", "tags": b"!a ",
        "anchors": b"&a ", "aliases": b"- *a\n", "blocks": b"|\n", "comments": b"#\n", "documents": b"---\n",
        "directives": b"%YAML 1.1\n", "quotes": b'"a",', "open": b"[", "open mappings": b"{", "mixed": b"[{",
        "sexagesimal": b"1:", "digits": b"1", "dots": b"1.", "underscores": b"1_", "text": b"a", "words": b"a ",
        "lines": b"a\n", "dashes": b"-\n", "escapes": b"\\x41", "letters": "\u00e9".encode(), "dates": b"2026-01-01 ",
    }  # fmt: skip
    inside = {"": (b"", b""), "in a list": (b"[", b"]"), "in quotes": (b'"', b'"'), "in a block": (b"|\n ", b""),
              "a value": (b"a: ", b"")}  # fmt: skip
    texts = {
        f"{name} {where}": _filled(unit, size, *around)
        for name, unit in units.items()
        for where, around in inside.items()
    }
    deep = b"".join(b" " * level + b"a:\n" for level in range(350))
    many = b"".join(b"a%d: 1.5\n" % at for at in range(4_900))
    return {**texts, "indents": deep, "names": many, "larger": b"a: " + b"x" * MIB}


def _cbor(size: int) -> dict[str, bytes]:
    count = size - 9
    return {
        "depth": b"\x81" * size,
        "endless depth": b"\x9f" * size,
        "nulls": b"\x9b" + count.to_bytes(8, "big") + b"\xf6" * count,
        "pairs": b"\xbb" + (count // 2).to_bytes(8, "big") + b"\x00" * count,
        "tags": b"\xc1" * size,
        "shared": b"\xd8\x1c" * (size // 2),
        "announced": b"\x9b" + b"\x7f" * 8,
        "big number": b"\xc2\x5a" + count.to_bytes(4, "big") + b"\xff" * count,
        "exponent": b"\xc4\x82\x1b" + b"\x7f" * 8 + b"\x01",
        "strings": b"\x60" * size,
    }


def _der(size: int) -> dict[str, bytes]:
    long = size.to_bytes(4, "big")
    return {
        "zeros": b"\0" * size,
        "depth": b"\x30\x80" * (size // 2),
        "announced": b"\x30\x84\x7f\xff\xff\xff" + b"\0" * 1_000,
        "sequence of nulls": b"\x30\x84" + long + b"\x05\x00" * (size // 2),
        "sequence of sets": b"\x30\x84" + long + b"\x31\x00" * (size // 2),
        "object id": b"\x30\x84" + long + b"\x06\x84" + (size - 6).to_bytes(4, "big") + b"\xff" * (size - 6),
    }


def _token(part: bytes) -> str:
    text = base64.urlsafe_b64encode(part).rstrip(b"=").decode()
    return f"{text}.{text}.{'A' * 86}"


_DEEP = b"[" * 30 + b"1," * 300 + b"1" + b"]" * 30
_SCHEMAS: dict[str, dict[str, Any]] = {
    "unknown keywords": {("propertie" * 40)[at:]: 1 for at in range(180)},
    "expressions": {"allOf": [{"pattern": f"[^x]{{{200 + at}}}"} for at in range(250)]},
    "properties": {"properties": {f"p{at}": {"type": "string"} for at in range(990)}},
    "references": {
        "properties": {f"p{at}": {"$ref": "#/$defs/x"} for at in range(800)},
        "$defs": {"x": {"properties": {f"y{at}": True for at in range(90)}}},
    },
    "references in circles": {
        "anyOf": [{"$ref": "#/$defs/n0"}],
        "$defs": {
            f"n{at}": {
                "anyOf": [{"properties": {f"x{to}": {"$ref": f"#/$defs/n{(at * to + 1) % 40}"}}} for to in range(6)]
            }
            for at in range(40)
        },
    },
    "enum": {"enum": [{"a": at} for at in range(5_000)]},
    "defaults": {"default": [[]] * 20_000},
    "wrong types": {"properties": {f"p{at}": {"type": "wrong"} for at in range(900)}},
}


class Turn(float):
    """Seconds of the longest turn of the reactor: what a parser of streams is measured by."""


def _by_turns(octets: bytes, take: Callable[[bytes], object]) -> Turn:
    """What one read of a socket brings is one turn."""
    longest = 0.0
    for at in range(0, len(octets), 1 << 16):
        begun = time.thread_time()
        over = False
        try:
            take(octets[at : at + (1 << 16)])
        except (RemoteProtocolError, MessageTooLong):
            over = True
        longest = max(longest, time.thread_time() - begun)
        if over:
            break
    return Turn(longest)


def _wire(octets: bytes) -> Turn:
    connection = Connection(Role.SERVER, Limits())

    def take(part: bytes) -> None:
        connection.receive(part)
        connection.next_event()

    return _by_turns(octets, take)


def _pem(octets: bytes) -> None:
    x509.load_pem_x509_certificates(octets)


def _events(octets: bytes) -> Turn:
    return _by_turns(octets, EventStreamParser(MAX_MESSAGE).feed)


def _lines(octets: bytes) -> Turn:
    return _by_turns(octets, LineSplitter().feed)


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "replace")


LINE = 8_192
"""Octets of a header line."""

_LINES = {
    name: unit * (LINE // len(unit))
    for name, unit in {
        "letters": b"a", "slashes": b"/", "dots": b"../", "percents": b"%41", "commas": b",", "colons": b"a:b,",
        "pairs": b"a=1&", "brackets": b"[", "at": b"@", "dashes": b"-", "zeros": b"0", "spaces": b" ", "stars": b"*:*,",
        "equals": b"tokens=1,", "quotes": b'"', "unicode": "\u00e9".encode(),
    }.items()
}  # fmt: skip

Table = dict[str, tuple[Callable[[Any], object], Callable[[], dict[str, Any]]]]
"""Inputs are made when they are wanted: together they are 700 MiB."""

PARSERS: Table = {
    "JSON bodies": (lambda octets: bodies.unwrap(bodies.decode(octets, media_types.AGTP_JSON)), lambda: _json(MIB)),
    "JSON of upstreams": (jsontext.decode, lambda: _json(4 * MIB)),
    "JSON of upstreams, at its largest": (jsontext.decode, lambda: _texts(MAX_MESSAGE)),
    "YAML bodies": (lambda octets: bodies.decode(octets, media_types.AGTP_YAML, yaml=True), _yaml),
    "YAML bodies refused": (
        lambda octets: bodies.decode(octets, media_types.AGTP_YAML),
        lambda: {"large": b"[]," * MIB},
    ),
    "COSE": (cose.parse_unverified, lambda: _cbor(64 << 10)),
    "JWS": (lambda part: jws.parse_unverified(_token(part)), lambda: {"depth": _DEEP, **_json(8 << 10)}),
    "bearer tokens": (
        lambda part: BearerTokens(()).validate(_token(part), 0.0),
        lambda: {"depth": _DEEP, **_json(6 << 10)},
    ),
    "key sets": (read_keys, lambda: _json(256 << 10)),
    "Intent-Assertions": (
        lambda part: IntentAssertions(()).verify(_token(part), merchant_id="m", agent_id="a", now=0.0),
        lambda: {"depth": _DEEP, **_json(6 << 10)},
    ),
    "Genesis": (genesis.Genesis.load, lambda: _json(64 << 10)),
    "identity documents": (documents.decode, lambda: _json(64 << 10)),
    "packages": (
        packages.manifest_of,
        lambda: {
            "zeros": b"\0" * MIB,
            "heads": b"PK\x05\x06" * (MIB // 4),
            "zip": b"PK\x03\x04" * (MIB // 4),
            **_json(MIB),
        },
    ),
    "certificates, DER": (x509.load_der_x509_certificate, lambda: _der(64 << 10)),
    "certificates, PEM": (
        _pem,
        lambda: {
            "blocks": b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n" * 1_000,
            "begin": b"-----BEGIN CERTIFICATE-----\n" * 2_000,
            "dashes": b"-" * (64 << 10),
            "base64": b"-----BEGIN CERTIFICATE-----\n" + b"A" * (64 << 10) + b"\n-----END CERTIFICATE-----\n",
        },
    ),
    "schemas": (
        lambda schema: compile_schema({"type": "object", "additionalProperties": False, **schema}, role="tool"),
        lambda: _SCHEMAS,
    ),
    "catalogs": (parse_catalog, lambda: _json(MIB)),
    "requests": (
        _wire,
        lambda: {
            "garbage": b"\xff" * MIB,
            "long line": b"AGTP/1.0 QUERY /" + b"a" * MIB,
            "headers": b"AGTP/1.0 QUERY /\r\n" + b"a: b\r\n" * 100_000,
            "short lines": b"\r\n" * (MIB // 2),
            "returns": b"\r" * MIB,
            "folded": b"AGTP/1.0 QUERY /\r\na: b\r\n" + b" c\r\n" * 10_000,
            "pipelined": b"AGTP/1.0 QUERY /\r\n\r\n" * 10_000,
        },
    ),
    "event streams": (
        _events,
        lambda: {
            "lines": b"\n" * MIB,
            "data": b"data: x\n" * (MIB // 8),
            "events": b"data: x\n\n" * 40_000,
            "long": b"data: " + b"x" * MIB,
            "returns": b"\r" * MIB,
            "colons": b":" * MIB,
        },
    ),
    "lines of MCP servers": (
        _lines,
        lambda: {"lines": b"\n" * MIB, "long": b"x" * (5 * MIB), "short": b"{}\n" * (MIB // 3)},
    ),
    "lines that are too long": (answered_id, lambda: _json(64 << 10)),
    "refused lines of MCP servers": (find_call_id, lambda: _json(MAX_MESSAGE)),
    "query strings": (lambda octets: dict(paths.parse_query(_text(octets))), lambda: _LINES),
    "path templates": (lambda octets: paths.parse_template("/" + _text(octets)), lambda: _LINES),
    "path grammar": (lambda octets: paths.PathGrammar({"BOOK"}).offence("/" + _text(octets)), lambda: _LINES),
    "agtp URIs": (lambda octets: uris.parse("agtp://" + _text(octets)), lambda: _LINES),
    "Authority-Scope": (lambda octets: scopes.parse(_text(octets)), lambda: _LINES),
    "Budget-Limit": (lambda octets: budget.parse(_text(octets)), lambda: _LINES),
    "media types": (lambda octets: media_types.essence(_text(octets)), lambda: _LINES),
    "money": (lambda octets: money.parse(_text(octets)), lambda: _LINES),
    "close matches": (lambda octets: Catalog.load().close_matches(_text(octets)), lambda: _LINES),
}

READERS: dict[str, str] = {
    "yaml": "vocabulary/yamltext agis/normal methods/discovery/publication contract/openapi/document_text",
    "cbor2": "identity/cose",
    "tomllib": "vocabulary/tomltext vocabulary/tomlparser agis/acts agis/confusables agis/endpoint_matching "
    "agis/families agis/words "
    "config/cures",
    "tomli": "vocabulary/tomlparser",
    "zipfile": "identity/packages identity/issuance",
    "marshal": "audit/record_text vocabulary/given_values",
}
"""
Who imports what can parse. Of ``yaml``: the decoder of the table, two that only write, and the reader of an
operator's own OpenAPI file; ``tomllib`` and ``tomli`` read the operator's files, and ``tomllib`` lists that ship with
this package; ``identity/issuance`` writes packages; ``audit/record_text`` only writes, and ``vocabulary/given_values``
reads what it has just written.
"""

COMMANDS = ("cli/", "conformance/")
"""What runs in a process of its own, before its user's eyes: no reactor that others wait for."""

LOADS = {
    "vocabulary/toml_salvage",  # an operator's own file, in a command
    "adapters/mcp/long_lines",  # in the table
    "agis/passes/structural",  # what ships beside it
    "agis/endpoint_matching",  # what ships beside it
    "agis/acts",  # what ships beside it
    "agis/confusables",  # what ships beside it
    "agis/families",  # what ships beside it
    "agis/words",  # what ships beside it
    "audit/retention",  # what it wrote itself, in the same line
    "contract/manifest_rules",  # what ships beside it
    "contract/openapi/shared_definitions",  # definitions that it wrote itself, in the same call
    "contract/openapi/document_text",
    "config/cures",  # a hint that this package wrote
    "host/plugin_settings",  # settings of the operator's file that it wrote itself, in the same line
    "host/publication_history",  # the host's own state
    "cluster/shared_numbers",  # the same, as the store has it
    "vocabulary/given_values",  # what it has just written itself, of a call that is in the table
    "identity/cose",  # in the table
    "identity/key_history",  # the host's own state
    "vocabulary/jsonc",  # configuration of a person's own MCP clients, read by commands
    "vocabulary/jsontext",
    "vocabulary/tomlparser",  # the operator's files; and texts for VALIDATE, in a worker process
    "vocabulary/tomltext",
    "vocabulary/catalog",  # what ships beside it
}
"""Modules that call ``loads`` or ``load`` of a parser themselves; all others go through the decoders of the table."""


def limit() -> float:
    """Seconds of CPU that count as 50 ms on this machine, seconds ago at most: to measure takes 20 to 50 ms."""
    return _measured_limit(int(time.monotonic() / 4))


@lru_cache(maxsize=1)
def _measured_limit(moment: int) -> float:
    text = b"[" + b"1," * 100_000 + b"1]"
    return 0.05 * max(1.0, min(_seconds(json.loads, text) for _ in range(5)) / 0.004)


def _seconds(parse: Callable[[Any], object], value: Any) -> float:
    begun = time.thread_time()
    with suppress(ValueError, Refusal):
        taken = parse(value)
        if isinstance(taken, Turn):
            return float(taken)
    return time.thread_time() - begun


def slowest(parse: Callable[[Any], object], value: Any, bound: float = 0.0) -> float:
    """The best of six, or the first within ``bound``: what else the machine does is nobody's fault."""
    taken = float("inf")
    for _ in range(6):
        taken = min(taken, _seconds(parse, value))
        if taken <= bound:
            break
    return taken


@measured
@each_row("name", PARSERS)
def test_no_octets_hold_the_reactor(name: str) -> None:
    """Within 50 ms, and ValueError or a Refusal at the worst: another exception fails the test."""
    parse, inputs = PARSERS[name]
    bound = limit()
    taken = {given: slowest(parse, value, bound) for given, value in inputs().items()}
    # The machine may have become slower in between; what holds the reactor takes many times as long.
    bound = 1.5 * max(bound, limit())
    late = {given: f"{seconds * 1000:.0f} ms" for given, seconds in taken.items() if seconds > bound}
    assert not late, f"{late}, {bound * 1000:.0f} ms are allowed"


@pytest.mark.release
@measured
def test_a_parser_without_bounds_is_noticed() -> None:
    """The control: PyYAML's own loader on 64 KiB of brackets, and a JSON reader that counts when all is made."""
    import yaml

    assert _seconds(lambda octets: yaml.load(octets, yaml.SafeLoader), _yaml()["brackets in a list"]) > limit()
    assert _seconds(json.loads, _filled(b'{"a":[]},', 4 * MIB, b"[", b"0]")) > limit()


IMPORTED = ("yaml", "cbor2", "tomllib", "tomli", "zipfile", "xml", "pickle", "marshal", "plistlib")
LOADING = ("loads", "safe_load", "raw_decode", "fromstring", "literal_eval")


@cache
def _sources() -> dict[str, tuple[set[str], bool]]:
    """What each module imports, and whether it parses by itself."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        name = str(path.relative_to(ROOT).with_suffix(""))
        if not name.startswith(COMMANDS):
            source = path.read_text()
            nodes = nodes_in(source) if any(word in source for word in (*IMPORTED, *LOADING)) else []
            found[name] = _imports(nodes), _loading(nodes)
    return found


def _imports(nodes: Iterable[ast.AST]) -> set[str]:
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def _loading(nodes: Iterable[ast.AST]) -> bool:
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOADING
        for node in nodes
    )


@each_row("parser", IMPORTED)
def test_every_module_that_imports_a_parser_is_listed(parser: str) -> None:
    """A new reader of YAML, CBOR, TOML, ZIP or worse says here where it stands in the table, or why it need not."""
    found = {name for name, (imports, _) in _sources().items() if parser in imports}
    assert found == set(READERS.get(parser, "").split())


def test_every_module_that_parses_by_itself_is_listed() -> None:
    """JSON from outside is read by :mod:`agtphost.vocabulary.jsontext`, whatever brings it."""
    found = {name for name, (_, loading) in _sources().items() if loading}
    assert found <= LOADS, sorted(found - LOADS)


def test_an_unlisted_parser_is_noticed() -> None:
    """The control."""
    assert _loading(ast.walk(ast.parse("import json\nvalue = json.loads(text)")))
    assert "yaml" in _imports(ast.walk(ast.parse("def f():\n    from yaml import safe_load")))
