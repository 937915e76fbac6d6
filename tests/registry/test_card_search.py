"""FIND /cards over AGTP itself: scores, order, and what a caller may not call (HAIDIP)."""

from __future__ import annotations

from typing import Any

from tests.registry.hosts import RegistryHost, card


def found(host: RegistryHost, query: str, caller: Any) -> list[tuple[str, float]]:
    """Ids and scores, best first."""
    answer = host.call("FIND", "/cards", {"query": query}, caller=caller)
    assert answer.status == 200, answer.explanation
    return [(each["id"], each["score"]) for each in answer.result["results"]]


def test_scores_are_from_0_to_1_and_the_best_comes_first() -> None:
    """By name, description, capabilities, tags and languages; what may not be called is not found."""
    host = RegistryHost()
    assert host.register(given=card(tags=["subtitles"])).status in (200, 201)
    for query in ("translate a text", "subtitles", "speech in french", "translation"):
        everything = found(host, query, host.translator)
        assert everything and everything[0][0] == "translator", (query, everything)
        scores = [score for _, score in everything]
        assert scores == sorted(scores, reverse=True) and all(0 < score <= 1 for score in scores), everything
    tool = found(host, "read a file", host.demo)
    assert tool[0][0] == "mcp:files" and "mcp:files" not in dict(found(host, "read a file", host.translator))
    assert found(host, "xylophone zeppelin", host.demo) == []
