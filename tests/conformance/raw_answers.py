"""
The answers that the cases of a run get, octet by octet but for identifiers and times, so that runs can be compared.

What is signed, such as records, is compared by what it says.

Between carriers these differ by design: records name QUIC, and their numbers count cases of one carrier; an answer that
ends its connection says so over TLS alone; one of the first answers of a connection names the methods, and streams have
no order.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from agtphost.conformance.case import Case
from agtphost.conformance.link import Link, RawAnswer
from agtphost.conformance.runner import CaseResult, Plan, run
from agtphost.conformance.target import Target

_SIGNED = re.compile(r"(eyJ[\w-]+)\.([\w-]*)\.[\w-]+")

_NAMED = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)"), "<time>"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<id>"),
    (re.compile(r"\b[0-9a-f]{16,}\b"), "<id>"),
    (re.compile(r"(?<![\w-])(?=[\w-]*\d)(?=[\w-]*[A-Z])[\w-]{16,}(?![\w-])"), "<id>"),
    (re.compile(r'(?<="latency":)[\d.e-]+'), "<seconds>"),
    (re.compile(r"^Audit-Summary: .*\n", re.MULTILINE), ""),  # Of refusals within a minute.
    (re.compile(r"(?i)^content-length: \d+$", re.MULTILINE), "Content-Length: <length>"),
)
"""What differs between two runs over one carrier; a length that is wrong fails its case."""

_OF_CARRIERS = (
    (re.compile(r'(?<="seq":)\d+'), "<number>"),  # Each carrier has cases of its own before.
    (re.compile(r'"extra":\{"carrier":"quic"\},'), ""),
    (re.compile(r'(?<="extra":\{)"carrier":"quic",'), ""),
    (re.compile(r'("extra":\{[^{}]+),"carrier":"quic"'), r"\1"),
    (re.compile(r"^(Connection: close|Supported-Methods: .*)\n", re.MULTILINE), ""),
)
"""What differs between carriers."""

Answers = Mapping[str, list[str]]
"""Of each case its answers, in their order."""


def decode_part(part: str) -> str:
    """Return what a part of a JWS says; of what a host refuses it may be anything."""
    return urlsafe_b64decode(part + "=" * (-len(part) % 4)).decode("utf-8", "replace")


def render(answer: RawAnswer, port: int) -> str:
    """Return the head and the body of an answer, without what differs."""
    text = answer.head.decode("latin-1").replace("\r\n", "\n") + "\n" + answer.body.decode("utf-8", "replace")
    text = _SIGNED.sub(lambda found: f"<signed: {decode_part(found[1])} {decode_part(found[2])}>", text)
    for pattern, name in (*_NAMED, *_OF_CARRIERS):
        text = pattern.sub(name, text)
    return text.replace(f":{port}", ":<port>").replace(f'"port":{port}', '"port":<port>')


def run_recorded(target: Target, cases: Iterable[Case], port: int) -> tuple[list[CaseResult], Answers]:
    """Run cases; return their results, and the answers that each has read."""
    found: dict[str, list[str]] = {}
    results: list[CaseResult] = []
    read = Link.answer

    def read_noted(self: Link, request: bytes = b"") -> RawAnswer | None:
        answer = read(self, request)
        if answer is not None:
            found[case.id].append(render(answer, port))
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Link, "answer", read_noted)
        for case in cases:
            found[case.id] = []
            results += run(target, [case], Plan(), lambda result: None)
    return results, found


def differing(one: Answers, other: Answers) -> dict[str, list[Any]]:
    """Return the cases whose answers differ, with the first pair that does."""
    found: dict[str, list[Any]] = {}
    for name in one:
        pairs = list(zip(one[name], other[name], strict=False))
        unequal = [list(pair) for pair in pairs if pair[0] != pair[1]]
        if unequal or len(one[name]) != len(other[name]):
            found[name] = unequal[0] if unequal else [f"{len(one[name])} answers", f"{len(other[name])} answers"]
    return found
