"""The request line: core v08 section 5.4.1."""

from __future__ import annotations

from agtphost.conformance.case import Cases
from agtphost.conformance.cases.framing import probe, refuses
from agtphost.conformance.target import Target
from agtphost.conformance.verdict import expect

CASES = Cases("wire")


def _line(name: str, requirements: str, title: str, line: bytes) -> None:
    """Add a case for a malformed request line: one 400, and the connection ends."""
    CASES.row(f"line-{name}", requirements, title, refuses, line + b"\r\nContent-Length: 0\r\n\r\n")


for _name, _requirements, _title, _text in (
    ("version-last", "AGTP-017 AGTP-068", "A line in HTTP's order is malformed.", b"QUERY / AGTP/1.0"),
    ("http", "AGTP-017", "An HTTP request line is malformed.", b"GET / HTTP/1.1"),
    ("four-tokens", "AGTP-017", "A fourth token is malformed.", b"AGTP/1.0 DISCOVER / extra"),
    ("one-token", "AGTP-017", "A version alone is malformed.", b"AGTP/1.0"),
    ("two-spaces-first", "AGTP-017", "Two spaces before the method are malformed.", b"AGTP/1.0  DISCOVER /"),
    ("two-spaces-second", "AGTP-017", "Two spaces before the target are malformed.", b"AGTP/1.0 DISCOVER  /"),
    ("leading-space", "AGTP-017", "A space before the version is malformed.", b" AGTP/1.0 DISCOVER /"),
    ("trailing-space", "AGTP-017", "A space after the target is malformed.", b"AGTP/1.0 DISCOVER / "),
    ("tab-first", "AGTP-017", "A tab for the first space is malformed.", b"AGTP/1.0\tDISCOVER /"),
    ("tab-second", "AGTP-017", "A tab for the second space is malformed.", b"AGTP/1.0 DISCOVER\t/"),
    ("other-major", "AGTP-017", "Another major version is malformed.", b"AGTP/2.0 DISCOVER /"),
    ("other-minor", "AGTP-017", "Another minor version is malformed.", b"AGTP/1.1 DISCOVER /"),
    ("version-lower-case", "AGTP-017", "A version in lower case is malformed.", b"agtp/1.0 DISCOVER /"),
    ("version-no-minor", "AGTP-017", "A version without minor number is malformed.", b"AGTP/1 DISCOVER /"),
    ("version-more-digits", "AGTP-017", "A version of more digits is malformed.", b"AGTP/1.00 DISCOVER /"),
    ("relative-target", "AGTP-020", "A target without a leading slash is malformed.", b"AGTP/1.0 DISCOVER agents"),
    ("absolute-target", "AGTP-020", "A whole URI as target is malformed.", b"AGTP/1.0 DISCOVER agtp://example.com/"),
    ("http-target", "AGTP-020", "An HTTP URI as target is malformed.", b"AGTP/1.0 DISCOVER http://example.com/"),
    ("asterisk-target", "AGTP-020", "The target * is malformed.", b"AGTP/1.0 DISCOVER *"),
    ("query-alone", "AGTP-020", "A query without a path is malformed.", b"AGTP/1.0 DISCOVER ?a=1"),
    ("double-slash-target", "AGTP-020", "A path that begins with two slashes is malformed.", b"AGTP/1.0 DISCOVER //a"),
    ("backslash-target", "AGTP-020 API-029", "A backslash in the target is malformed.", b"AGTP/1.0 DISCOVER /a\\b"),
    ("fragment-path", "AGTP-022 API-038", "A # after the path is malformed.", b"AGTP/1.0 DISCOVER /agents#x"),
    ("fragment-query", "AGTP-022 API-038", "A # in the query is malformed.", b"AGTP/1.0 DISCOVER /agents?a=1#x"),
    ("fragment-alone", "AGTP-022", "A # as target is malformed.", b"AGTP/1.0 DISCOVER #"),
    ("fragment-root", "AGTP-022", "A # right after the slash is malformed.", b"AGTP/1.0 DISCOVER /#"),
    ("fragment-method", "AGTP-022", "A # in the method is malformed.", b"AGTP/1.0 DIS#COVER /"),
    ("nul-path", "AGTP-020 API-029", "A NUL in the path is malformed.", b"AGTP/1.0 DISCOVER /a\x00b"),
    ("control-path", "AGTP-020 API-029", "A control character in the path is malformed.", b"AGTP/1.0 DISCOVER /a\x07b"),
    ("delete-path", "AGTP-020 API-029", "The octet 7F in the path is malformed.", b"AGTP/1.0 DISCOVER /a\x7fb"),
    (
        "latin-path",
        "AGTP-020 API-029",
        "An octet beyond ASCII in the path is malformed.",
        b"AGTP/1.0 DISCOVER /caf\xe9",
    ),
    (
        "utf8-path",
        "AGTP-020 API-029",
        "Unescaped UTF-8 in the path is malformed.",
        "AGTP/1.0 DISCOVER /caf\u00e9".encode(),
    ),
    ("nul-query", "AGTP-021", "A NUL in the query is malformed.", b"AGTP/1.0 DISCOVER /agents?a=\x00"),
    ("nul-method", "AGTP-017", "A NUL in the method is malformed.", b"AGTP/1.0 DIS\x00COVER /"),
    ("method-slash", "AGTP-017", "A slash in the method is malformed.", b"AGTP/1.0 DIS/COVER /"),
    ("method-colon", "AGTP-017", "A colon in the method is malformed.", b"AGTP/1.0 DISCOVER: /"),
    ("angle-path", "API-029", "An unescaped < in the path is refused.", b"AGTP/1.0 DISCOVER /a<b"),
    ("brace-path", "API-029", "An unescaped { in the path is refused.", b"AGTP/1.0 DISCOVER /{id}"),
    ("quote-path", "API-029", "An unescaped quotation mark in the path is refused.", b'AGTP/1.0 DISCOVER /a"b'),
    ("bad-escape", "API-029", "A % without two hexadecimal digits is refused.", b"AGTP/1.0 DISCOVER /a%zz"),
    ("short-escape", "API-029", "A % at the end of the path is refused.", b"AGTP/1.0 DISCOVER /a%"),
    ("oversize", "AGTP-068", "A request line of 64 KiB is refused.", b"AGTP/1.0 DISCOVER /" + b"a" * 65_536),
):
    _line(_name, _requirements, _title, _text)


@CASES.case("line-two-tokens", "AGTP-017")
def two_tokens(target: Target) -> None:
    """A line of two tokens is read as path / or refused, and never anything else."""
    with target.link() as link:
        link.send(target.introduce(b"AGTP/1.0 INSPECT\r\nContent-Length: 0\r\n\r\n"))
        answer = link.answer()
    expect(answer is not None, "the server did not answer")
    if answer is not None and answer.status != 400:
        plain = target.ask("INSPECT", "/")
        expect(answer.status == plain.status, f"answered {answer} where INSPECT / is answered {plain}")


for _name, _requirements, _title, _target in (
    ("query", "AGTP-021", "A query is split off before the path is matched.", "/agents?a=1"),
    ("query-empty", "AGTP-021", "An empty query is not part of the path.", "/agents?"),
    ("query-verb", "AGTP-021", "The path grammar does not apply to the query.", "/agents?book=1"),
    ("query-slash", "AGTP-021", "Slashes and question marks are allowed in a query.", "/agents?a=/b?c"),
    ("query-escape", "AGTP-021 API-037", "Escapes are allowed in a query.", "/agents?a=%20%2F%26"),
):

    def _same(target: Target, address: str) -> None:
        plain, asked = target.ask("QUERY", "/agents"), target.ask("QUERY", address)
        # A schema may refuse undeclared members; this case only tests that the path matched.
        expect(asked.status in (plain.status, 422), f"answered {asked} where QUERY /agents is answered {plain}")

    CASES.row(f"line-{_name}", _requirements, _title, _same, _target)


@CASES.case("line-invalid-token", "AGTP-022 API-038")
def invalid_token(target: Target) -> None:
    """The refusal of a # has the reason invalid-request-line."""
    answer = refuses(target, b"AGTP/1.0 QUERY /catalog#x\r\nContent-Length: 0\r\n\r\n")
    expect("invalid-request-line" in answer.tokens, f"the body names {sorted(answer.tokens)}")


@CASES.case("line-empty-target-is-not-dispatched", "AGTP-020")
def no_target(target: Target) -> None:
    """A method followed by a space and nothing is malformed."""
    refuses(target, b"AGTP/1.0 DISCOVER \r\nContent-Length: 0\r\n\r\n")


@CASES.case("line-longest-method", "API-005")
def long_method(target: Target) -> None:
    """A method of 200 letters is refused as malformed or unknown, and the server keeps serving."""
    with target.link() as link:
        link.send(target.introduce(b"AGTP/1.0 " + b"A" * 200 + b" /\r\nContent-Length: 0\r\n\r\n"))
        answer = link.answer()
    expect(answer is not None and answer.status in (400, 459), f"answered {answer}")
    probe(target)


@CASES.case("line-plain", "AGTP-001 AGTP-017 AGTP-018")
def plain(target: Target) -> None:
    """A request line of three tokens over TLS is answered by a response line."""
    answer = probe(target)
    expect(answer.head.startswith(b"AGTP/1.0 "), "the response line has another version")
