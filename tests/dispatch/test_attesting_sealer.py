"""Attestation-Evidence: on every response that says what it is, and nowhere unless configured (AGTP-055)."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from agtphost.handlers.built_in import Answer
from agtphost.handlers.context import EndpointResponse
from tests.dispatch.hosts import DispatchHost, document

SIGNED = "eyJhbGciOiJFUzI1NiJ9.eyJub25jZSI6IjEifQ.c2lnbmF0dXJl"
EVIDENCE = {"rats-eat": SIGNED, "rats-corim": SIGNED, "rats-uri": "https://evidence.example/1"}


def attesting(kind: str = "rats-eat", **changes: Any) -> DispatchHost:
    return DispatchHost(settings={"attestation": {"type": kind, "evidence": EVIDENCE[kind]}}, **changes)


@pytest.mark.parametrize("kind", ["rats-eat", "rats-corim", "rats-uri"])
def test_evidence_is_in_the_header_and_its_type_in_the_body(kind: str) -> None:
    """AGTP-055: of results, refusals and replays; the record covers the body as it is sent."""
    host = attesting(kind)
    keyed = {"Idempotency-Key": "k-1"}
    for answer in (
        host.ask(body={"text": "hello"}),
        host.ask(body={"text": 7}),
        host.ask("RESERVE", "/nowhere"),
        host.ask(body={"text": "hello"}, headers=keyed),
        host.ask(body={"text": "hello"}, headers=keyed),
    ):
        assert answer.headers.get("attestation-evidence") == EVIDENCE[kind]
        assert document(answer)["attestation_type"] == kind
    assert len(host.recorder.calls) == 2
    last = host.ask("RESERVE", "/nowhere")
    assert host.ledger.drafts[-1].payload["result_hash"] == sha256(last.body).hexdigest()


def test_unconfigured_there_is_none() -> None:
    """AGTP-055: neither the header nor the member, of results and of refusals."""
    host = DispatchHost()
    for answer in (host.ask(body={"text": "hello"}), host.ask("RESERVE", "/nowhere")):
        assert answer.headers.get("attestation-evidence") is None
        assert "attestation_type" not in document(answer)


def test_documents_that_cannot_say_what_it_is_go_without() -> None:
    """A document served as it is has no place for the type: then there is no evidence either."""
    listed = Answer(result=[1], enveloped=False)
    for raw in (listed, EndpointResponse(body=b"{}"), EndpointResponse(status=204)):
        answer = attesting(answer=lambda context, raw=raw: raw, built_in=True).ask(body={"text": "hello"})
        assert answer.headers.get("attestation-evidence") is None
        assert b"attestation_type" not in answer.body
