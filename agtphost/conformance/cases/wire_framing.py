"""Content-Length, bodies and line ends: core v08 section 5.4.1."""

from __future__ import annotations

from agtphost.conformance.case import Cases
from agtphost.conformance.cases.framing import accepts, refuses

CASES = Cases("wire")

START = b"AGTP/1.0 QUERY /conformance\r\n"
TYPE = b"Content-Type: application/vnd.agtp+json\r\n"
SEVEN = b"Content-Length: 7\r\n"
ZERO = b"Content-Length: 0\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
DISCOVER = b"AGTP/1.0 DISCOVER /agents"


def _length(value: bytes, body: bytes = b'{"a":1}') -> bytes:
    return START + TYPE + b"Content-Length:" + value + b"\r\n\r\n" + body


for _name, _title, _value in (
    ("plus", "A sign before the number is malformed.", b" +7"),
    ("minus", "A negative number is malformed.", b" -7"),
    ("leading-zero", "A leading zero is malformed.", b" 07"),
    ("list", "A list of equal numbers is malformed.", b" 7, 7"),
    ("two-numbers", "Two numbers are malformed.", b" 7 7"),
    ("hex", "A hexadecimal number is malformed.", b" 0x7"),
    ("decimal", "A fraction is malformed.", b" 7.0"),
    ("exponent", "An exponent is malformed.", b" 7e0"),
    ("underscore", "An underscore is malformed.", b" 1_0"),
    ("empty", "An empty value is malformed.", b""),
    ("word", "A word is malformed.", b" seven"),
    ("quoted", "Quotation marks are malformed.", b' "7"'),
    ("semicolon", "A parameter is malformed.", b" 7;"),
    ("comma", "A trailing comma is malformed.", b" 7,"),
    ("huge", "A number of 30 digits is malformed.", b" 1" + b"0" * 30),
    ("unicode-digit", "A digit beyond ASCII is malformed.", " \u0667".encode()),
    ("superscript", "A superscript digit is malformed.", b" \xb2"),
    ("vertical-tab", "A vertical tab before the number is malformed.", b"\x0b7"),
):
    CASES.row(
        f"length-{_name}", "AGTP-012", f"Content-Length: {_title[0].lower()}{_title[1:]}", refuses, _length(_value)
    )

for _name, _title, _fields in (
    ("equal", "Content-Length twice with one value is malformed.", SEVEN + SEVEN),
    ("different", "Content-Length twice with two values is malformed.", SEVEN + ZERO),
    ("reversed", "Content-Length twice is malformed in either order.", ZERO + SEVEN),
    ("other-case", "Content-Length twice in two spellings is malformed.", SEVEN + SEVEN.lower()),
    ("apart", "Content-Length twice with a field between is malformed.", SEVEN + b"X-A: 1\r\nContent-Length: 8\r\n"),
    ("space-colon", "A second Content-Length hidden by a space is malformed.", SEVEN + b"Content-Length : 0\r\n"),
):
    CASES.row(f"length-twice-{_name}", "AGTP-012 AGTP-013", _title, refuses, START + TYPE + _fields + b'\r\n{"a":1}')

for _name, _title, _fields in (
    ("chunked", "Transfer-Encoding: chunked is refused.", CHUNKED),
    ("chunked-and-length", "Transfer-Encoding together with Content-Length is refused.", SEVEN + CHUNKED),
    ("length-after", "Content-Length after Transfer-Encoding is refused, too.", CHUNKED + SEVEN),
    ("lower-case", "transfer-encoding in lower case is refused.", CHUNKED.lower()),
    ("identity", "Transfer-Encoding: identity is refused.", b"Transfer-Encoding: identity\r\n" + SEVEN),
    ("gzip", "Transfer-Encoding: gzip, chunked is refused.", b"Transfer-Encoding: gzip, chunked\r\n"),
    (
        "hidden-space",
        "Transfer-Encoding hidden by a space before the colon is refused.",
        b"Transfer-Encoding : chunked\r\n" + SEVEN,
    ),
    ("hidden-tab", "Transfer-Encoding hidden by a leading tab is refused.", b"\t" + CHUNKED + SEVEN),
    (
        "hidden-vertical-tab",
        "Transfer-Encoding hidden by a vertical tab is refused.",
        b"Transfer-Encoding:\x0bchunked\r\n" + SEVEN,
    ),
):
    octets = START + TYPE + _fields + b'\r\n7\r\n{"a":1}\r\n0\r\n\r\n'
    CASES.row(f"encoding-{_name}", "AGTP-015", _title, refuses, octets)

for _name, _title, _octets in (
    ("missing", "A body announced by Content-Type alone is refused, not waited for.", b'\r\n{"a":1}'),
    (
        "too-large",
        "A length of nine gigabytes is refused before any of it is read.",
        b"Content-Length: 9663676416\r\n\r\n",
    ),
):
    CASES.row(f"length-{_name}", "AGTP-012", _title, refuses, START + TYPE + _octets)

for _name, _title, _octets in (
    ("lf-only", "Lines that end only with LF are malformed.", DISCOVER + b"\nContent-Length: 0\n\n"),
    ("lf-request-line", "A request line that ends only with LF is malformed.", DISCOVER + b"\n" + ZERO + b"\r\n"),
    ("cr-only", "Lines that end only with CR are malformed.", DISCOVER + b"\rContent-Length: 0\r\r\n\r\n"),
    (
        "lf-end",
        "An empty line of LF alone does not end the fields.",
        DISCOVER + b"\r\n" + ZERO + b"\nX-A: 1\r\n\r\n",
    ),
    ("crcrlf", "A second CR before the LF is malformed.", DISCOVER + b"\r\r\n" + ZERO + b"\r\n"),
    ("tls-record", "Binary octets are malformed.", bytes(range(1, 10)) * 3 + b"\r\n\r\n"),
    ("json-first", "A body without a head is malformed.", b'{"method":"DISCOVER"}\r\n\r\n'),
):
    CASES.row(f"ending-{_name}", "AGTP-017 AGTP-068", _title, refuses, _octets)

for _name, _title, _octets in (
    ("zero", "Content-Length: 0 is a request without a body.", START + b"Content-Length: 0\r\n\r\n"),
    ("exact", "A body of the announced length is read.", _length(b" 7")),
    ("no-space", "The number may follow the colon directly.", _length(b"7")),
    ("padded", "White space around the number is ignored.", _length(b"  7 \t")),
    ("any-case", "The name may be written in any case.", START + TYPE + b"CONTENT-length: 7\r\n\r\n" + b'{"a":1}'),
):
    CASES.row(f"length-{_name}", "AGTP-012 AGTP-013", _title, accepts, _octets)
