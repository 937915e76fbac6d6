"""Remote agents are sent, and may answer, only what follows the schemas of their cards (HAIDIP)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from agtphost.registry import bindings
from agtphost.testing.connection import Answer
from tests.registry.hosts import RegistryHost, card

ORIGIN = "https://api.example.com"
TAKEN = {
    "type": "object",
    "required": ["text"],
    "additionalProperties": False,
    "properties": {"text": {"type": "string"}},
}
GIVEN = {"type": "object", "required": ["done"], "properties": {"done": {"type": "boolean"}}}


class Remote:
    """An agent elsewhere, in place of the network."""

    def __init__(self, answer: Any) -> None:
        self.heard: list[Mapping[str, Any]] = []
        self._answer = answer

    async def handle(self, context: Any) -> Any:
        self.heard.append(dict(context.input))
        return self._answer

    async def close(self) -> None:
        """Nothing is kept."""


def called(monkeypatch: pytest.MonkeyPatch, remote: Remote, given: Any) -> Answer:
    """The answer to a call of the one operation of a card."""
    monkeypatch.setattr(bindings, "ExternalService", lambda *_: remote)
    host = RegistryHost({"provider": [{"origin": ORIGIN}]})
    operation = {"name": "say", "input_schema": TAKEN, "output_schema": GIVEN}
    made = host.register(given=card(endpoint=f"{ORIGIN}/a", inputs=None, outputs=None, operations=[operation]))
    assert made.status == 200, made.explanation
    return host.call("EXECUTE", "/cards/translator", {"action": "say", "parameters": given}, caller=host.translator)


@pytest.mark.parametrize("given", [{}, {"text": 5}, {"text": "a", "more": 1}])
def test_input_that_does_not_follow_the_card_reaches_no_agent(
    monkeypatch: pytest.MonkeyPatch, given: Mapping[str, Any]
) -> None:
    """HAIDIP-030: it is refused with the faults, as for an agent that is hosted here."""
    remote = Remote({"done": True})
    answer = called(monkeypatch, remote, given)
    assert (answer.status, answer.reason) == (422, "invalid-input"), answer.document
    assert answer.document["faults"] and remote.heard == []


def test_input_that_follows_the_card_reaches_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """HAIDIP-030: the control."""
    remote = Remote({"done": True})
    answer = called(monkeypatch, remote, {"text": "a"})
    assert (answer.status, answer.result, remote.heard) == (200, {"done": True}, [{"text": "a"}])


def test_an_answer_that_does_not_follow_the_card_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """HAIDIP-030: what the agent sends back is compared with the card, too."""
    answer = called(monkeypatch, Remote({"done": "yes"}), {"text": "a"})
    assert answer.status >= 500 and "yes" not in str(answer.document)
