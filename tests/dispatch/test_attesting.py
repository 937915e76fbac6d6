"""Attestation-Evidence: on every response that says what it is, and nowhere unless configured (AGTP-055)."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from agtphost.dispatch.attesting import AttestingSealer
from agtphost.handlers.built_in import Answer
from agtphost.handlers.context import EndpointResponse
from tests.dispatch.scene import Scene, document

EVIDENCE = "eyJhbGciOiJFUzI1NiJ9.eyJub25jZSI6IjEifQ.c2lnbmF0dXJl"


def attesting(kind: str = "rats-eat", **changes: Any) -> Scene:
    scene = Scene(**changes)
    scene.sealer = AttestingSealer("test-host", ("QUERY", "RESERVE"), kind=kind, evidence=EVIDENCE)
    return scene


@pytest.mark.parametrize("kind", ["rats-eat", "rats-corim", "rats-uri"])
def test_evidence_is_in_the_header_and_its_type_in_the_body(kind: str) -> None:
    """AGTP-055: of results, refusals and replays; the record covers the body as it is sent."""
    scene = attesting(kind)
    keyed = {"Idempotency-Key": "k-1"}
    for answer in (
        scene.ask(body={"text": "hello"}),
        scene.ask(body={"text": 7}),
        scene.ask("RESERVE", "/nowhere"),
        scene.ask(body={"text": "hello"}, headers=keyed),
        scene.ask(body={"text": "hello"}, headers=keyed),
    ):
        assert answer.headers.get("attestation-evidence") == EVIDENCE
        assert document(answer)["attestation_type"] == kind
    assert len(scene.recorder.calls) == 2
    last = scene.ask("RESERVE", "/nowhere")
    assert scene.ledger.drafts[-1].payload["result_hash"] == sha256(last.body).hexdigest()


def test_unconfigured_there_is_none() -> None:
    """AGTP-055: neither the header nor the member, of results and of refusals."""
    scene = Scene()
    for answer in (scene.ask(body={"text": "hello"}), scene.ask("RESERVE", "/nowhere")):
        assert answer.headers.get("attestation-evidence") is None
        assert "attestation_type" not in document(answer)


def test_documents_that_cannot_say_what_it_is_go_without() -> None:
    """A document served as it is has no place for the type: then there is no evidence either."""
    listed = Answer(result=[1], enveloped=False)
    for raw in (listed, EndpointResponse(body=b"{}"), EndpointResponse(status=204)):
        answer = attesting(answer=lambda context, raw=raw: raw, built_in=True).ask(body={"text": "hello"})
        assert answer.headers.get("attestation-evidence") is None
        assert b"attestation_type" not in answer.body
