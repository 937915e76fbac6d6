"""A host in memory with a registry, tools, endpoints, an operator and agents, for tests of cards."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agtphost.testing.connection import Answer
from agtphost.testing.identities import TestAgent
from tests.methods.granting_hosts import GrantingHost

DRAFT: Mapping[str, Any] = {
    "id": "translator",
    "name": "MultiLang Text Translator",
    "description": "Translates text between English and French.",
    "capabilities": ["translation", "language"],
    "inputs": {"text": "string", "source_language": "string", "target_language": "string"},
    "outputs": {"translated_text": "string"},
    "supported_languages": ["en", "fr"],
    "tags": ["NLP", "translation", "English", "French"],
    "authentication": "API Key",
    "endpoint": "https://api.example.com/agents/translator-001",
    "version": "1.0",
    "provider": "ExampleAI",
    "certification": {"verified": True, "quality_score": 4.8},
}
"""The example of HAIDIP, under another id."""


def card(**members: Any) -> dict[str, Any]:
    """The draft's card with other members; None leaves one out."""
    return {name: value for name, value in {**DRAFT, **members}.items() if value is not None}


class RegistryHost(GrantingHost):
    """
    Hosts ``desk``, knows ``translator`` and ``rival``, which may register, and has what :class:`GrantingHost` has.

    :param registry: the section.
    :param described: the description of ``desk`` in its Identity Document; empty: the usual one.
    """

    def __init__(self, registry: Mapping[str, Any] | None = None, *, described: str = "", **options: Any) -> None:
        settings = {"registry": dict(registry or {}), **options.pop("settings", {})}
        super().__init__(settings, **options)
        self.translator: TestAgent = self.agent("translator", hosted=False, scopes=("registry:register",))
        self.desk: TestAgent = self.agent("desk", hosted=True, description=described)
        self.rival: TestAgent = self.agent("rival", hosted=False, scopes=("registry:register",))

    def register(self, caller: Any = None, given: Any = None, **beside: Any) -> Answer:
        """REGISTER a card, by default the draft's and as its agent; text is sent as text."""
        sent = DRAFT if given is None else given
        return self.call("REGISTER", "/cards", {"card": sent, **beside}, caller=caller or self.translator)

    def list(self, caller: Any = None, **given: Any) -> list[str]:
        """Ids of the cards that a caller is shown."""
        answer = self.call("QUERY", "/cards", given, caller=caller)
        assert answer.status == 200, answer.explanation
        return [entry["id"] for entry in answer.result["agents"]]

    def registered(self, caller: Any = None, **given: Any) -> list[str]:
        """The same without the agents of the host, which are disclosed to everybody."""
        return [card_id for card_id in self.list(caller, **given) if not card_id.startswith("agent:")]

    def get(self, card_id: str, caller: Any = None, **given: Any) -> Answer:
        """QUERY one."""
        return self.call("QUERY", f"/cards/{card_id}", given, caller=caller or self.translator)

    def state(self, card_id: str = "translator") -> str:
        """Its state, as an operator sees it."""
        return str(self.get(card_id, self.operator, form="entry").result["state"])


def text_of(document: Mapping[str, Any]) -> str:
    """JSON text as nobody here would write it."""
    return json.dumps(document, indent=3, ensure_ascii=True)
