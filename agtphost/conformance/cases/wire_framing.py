"""Content-Length, bodies and line ends: core v08 section 5.4.1."""

from __future__ import annotations

from agtphost.conformance.case import Cases, load_tables, octets
from agtphost.conformance.cases.framing import accepts, refuses

CASES = Cases("wire")
TABLES = load_tables("wire.toml")

START = b"AGTP/1.0 QUERY /conformance\r\n"
TYPE = b"Content-Type: application/vnd.agtp+json\r\n"


def _length(value: bytes, body: bytes = b'{"a":1}') -> bytes:
    return START + TYPE + b"Content-Length:" + value + b"\r\n\r\n" + body


for _name, _title, _value in TABLES["refused_lengths"]:
    CASES.row(f"length-{_name}", "AGTP-012", f"Content-Length: {_title}", refuses, _length(octets(_value)))

for _name, _title, _fields in TABLES["repeated_lengths"]:
    CASES.row(
        f"length-twice-{_name}", "AGTP-012 AGTP-013", _title, refuses, START + TYPE + octets(_fields) + b'\r\n{"a":1}'
    )

for _name, _title, _fields in TABLES["refused_encodings"]:
    _sent = START + TYPE + octets(_fields) + b'\r\n7\r\n{"a":1}\r\n0\r\n\r\n'
    CASES.row(f"encoding-{_name}", "AGTP-015", _title, refuses, _sent)

for _name, _title, _octets in TABLES["refused_bodies"]:
    CASES.row(f"length-{_name}", "AGTP-012", _title, refuses, START + TYPE + octets(_octets))

for _name, _title, _octets in TABLES["refused_endings"]:
    CASES.row(f"ending-{_name}", "AGTP-017 AGTP-068", _title, refuses, octets(_octets))

for _name, _title, _octets in TABLES["accepted_lengths"]:
    CASES.row(f"length-{_name}", "AGTP-012 AGTP-013", _title, accepts, octets(_octets))
