"""Field lines: core v08 section 5.4.1 and RFC 9112 section 5."""

from __future__ import annotations

from agtphost.conformance.case import Cases, load_tables, octets
from agtphost.conformance.cases.framing import accepts, refuses
from agtphost.conformance.target import Target
from agtphost.conformance.verdict import expect

CASES = Cases("wire")
TABLES = load_tables("wire.toml")


def _request_with(field: bytes) -> bytes:
    return b"AGTP/1.0 DISCOVER /agents\r\n" + field + b"\r\nContent-Length: 0\r\n\r\n"


for _name, _title, _field in (
    *TABLES["refused_fields"],
    ("long-line", "A field line of 128 KiB is refused.", "X-Long: " + "a" * 131_072),
    ("many", "A thousand field lines are refused.", "\r\n".join(f"X-{number}: a" for number in range(1000))),
):
    CASES.row(f"field-{_name}", "AGTP-068", _title, refuses, _request_with(octets(_field)))

for _name, _requirements, _title, _field in TABLES["echoed_fields"]:

    def _check_echo(target: Target, field: bytes) -> None:
        answer = accepts(target, _request_with(field))
        expect(answer.header("Task-ID") == "t-1", f"Task-ID comes back as {answer.header('Task-ID')!r}")

    CASES.row(f"field-{_name}", f"{_requirements} AGTP-037", _title, _check_echo, octets(_field))

for _name, _requirements, _title, _field in TABLES["ignored_fields"]:
    CASES.row(f"field-{_name}", _requirements, _title, accepts, _request_with(octets(_field)))
