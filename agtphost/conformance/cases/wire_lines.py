"""The request line: core v08 section 5.4.1."""

from __future__ import annotations

from agtphost.conformance.case import Cases, load_tables, octets
from agtphost.conformance.cases.framing import probe, refuses
from agtphost.conformance.target import Target
from agtphost.conformance.verdict import expect

CASES = Cases("wire")
TABLES = load_tables("wire.toml")


def _line(name: str, requirements: str, title: str, line: bytes) -> None:
    """Add a case for a malformed request line: one 400, and the connection ends."""
    CASES.row(f"line-{name}", requirements, title, refuses, line + b"\r\nContent-Length: 0\r\n\r\n")


for _name, _requirements, _title, _text in (
    *TABLES["refused_lines"],
    ("oversize", "AGTP-068", "A request line of 64 KiB is refused.", "AGTP/1.0 DISCOVER /" + "a" * 65_536),
):
    _line(_name, _requirements, _title, octets(_text))


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


for _name, _requirements, _title, _target in TABLES["queries"]:

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
