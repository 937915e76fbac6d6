"""Agreeing on a version with servers that refuse one."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import Deferred

from agtphost.adapters.mcp import versions
from agtphost.adapters.mcp.versions import PROBE_TIMEOUT, PROBES, STATELESS, Negotiated, NegotiationFailed, negotiate
from agtphost.upstream.failures import ErrorAnswer
from tests.adapters.mcp.hosting import hosted, sdk
from tests.adapters.mcp.test_jsonrpc import Case

CLIENT = {"name": "host", "version": "1"}
DISCOVERED = {"supportedVersions": [STATELESS], "capabilities": {"tools": {}}}


def refused(*supported: object) -> dict[str, Any]:
    return {"error": {"code": -32022, "message": "no", "data": {"supported": list(supported)}}}


class Asked(Case):
    """A negotiation under way."""

    def __init__(self) -> None:
        super().__init__()
        self.outcome: list[Any] = []
        negotiation = Deferred.fromCoroutine(negotiate(self.peer, CLIENT, "auto", 5.0))
        negotiation.addBoth(self.outcome.append)

    def answer(self, answer: dict[str, Any]) -> None:
        self.peer.take_message({"jsonrpc": "2.0", "id": self.link.sent[-1]["id"], **answer})

    @property
    def methods(self) -> list[object]:
        return [message["method"] for message in self.link.sent if "id" in message]


def test_a_version_that_a_server_refuses_and_names_is_tried_again() -> None:
    """Protocol 2026-07-28: a client retries with a supported version, under another id."""
    case = Asked()
    case.answer(refused(STATELESS))
    case.answer({"result": DISCOVERED})
    [terms] = case.outcome
    assert isinstance(terms, Negotiated) and terms.stateless
    assert case.methods == ["server/discover"] * 2
    assert len({message["id"] for message in case.link.sent}) == 2


def test_a_server_that_refuses_for_ever_is_not_asked_for_ever() -> None:
    """After that it is taken for one of the handshake era."""
    case = Asked()
    for _ in range(PROBES):
        case.answer(refused(STATELESS))
    assert case.methods == ["server/discover"] * PROBES + ["initialize"]


def test_a_server_that_names_an_older_version_gets_the_handshake() -> None:
    """The control: without the version of this probe in its list it is not probed again."""
    case = Asked()
    case.answer(refused("2025-11-25"))
    assert case.methods == ["server/discover", "initialize"]


@pytest.mark.parametrize("supported", [[], ["2031-01-01"], [7, None, {}]])
def test_nothing_in_common_is_said(supported: list[object]) -> None:
    """A server that speaks none of this host's versions is not asked for anything else."""
    case = Asked()
    case.answer(refused(*supported))
    assert case.outcome[0].check(NegotiationFailed)
    assert case.methods == ["server/discover"]


def test_a_server_that_was_slow_to_answer_the_probe_is_asked_again() -> None:
    """On a busy machine: the probe made its connection stateless, and the handshake is refused there by then."""
    case = Asked()
    probed = case.link.sent[0]["id"]
    case.clock.advance(PROBE_TIMEOUT)
    assert case.methods == ["server/discover", "initialize"]
    case.peer.take_message({"jsonrpc": "2.0", "id": probed, "result": DISCOVERED})
    case.answer({"error": {"code": -32022, "message": "connection is serving the 2026-07-28 protocol"}})
    assert case.outcome == []
    case.answer({"result": DISCOVERED})
    [terms] = case.outcome
    assert isinstance(terms, Negotiated) and terms.stateless
    assert case.methods == ["server/discover", "initialize", "server/discover"]


@pytest_twisted.ensureDeferred
async def test_the_official_sdk_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A real server, which never answers as fast as that: it comes up all the same, without another start."""
    monkeypatch.setattr(versions, "PROBE_TIMEOUT", 0.001)
    async with hosted(sdk("stdio")) as server:
        assert server.terms is not None and server.terms.stateless
        assert server.snapshot().restarts == 0


@pytest.mark.parametrize("answer", [{"error": {"code": -32603, "message": "no"}}, refused(STATELESS)])
def test_a_handshake_that_is_refused_for_good_is_refused(answer: dict[str, Any]) -> None:
    """The control: for another reason at once, and where no era of both is left."""
    case = Asked()
    case.clock.advance(PROBE_TIMEOUT)
    case.answer(answer)
    if case.outcome == []:
        case.answer(answer)
    assert case.outcome[0].check(ErrorAnswer)


def test_every_stateless_request_says_what_callers_can_be_asked() -> None:
    """The first one too: what a server offers may depend on it."""
    case = Asked()
    meta = case.link.sent[0]["params"]["_meta"]
    assert set(meta["io.modelcontextprotocol/clientCapabilities"]) == {"sampling", "elicitation", "roots"}
