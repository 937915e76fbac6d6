"""A target whose manifest comes in parts: every endpoint of it is looked at."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agtphost.conformance import manifest_parts
from agtphost.conformance.link import Failure, RawAnswer
from agtphost.conformance.target import Target


class PartsTarget(Target):
    """Answers ``DISCOVER /`` from a table of parts, by token."""

    def __init__(self, parts: dict[str, dict[str, Any]]) -> None:
        self.parts = parts
        self.asks_agent = False

    def ask(self, method: str, path: str = "/", body: Any = None, **options: Any) -> RawAnswer:
        assert (method, path) == ("DISCOVER", "/")
        octets = json.dumps(self.parts[(body or {}).get("part", "")]).encode()
        return RawAnswer(status=200, text="OK", fields=(), body=octets, head=b"")


def part(number: int, *paths: str, of: int = 2, following: str | None = None) -> dict[str, Any]:
    about = {"number": number, "of": of, "endpoints": 3, **({"next": following} if following else {})}
    endpoints = [{"method": "QUERY", "path": path} for path in paths]
    return {"agtp_version": "1.0", "document_version": "1", "server": {}, "endpoints": endpoints, "parts": about}


def test_endpoints_of_every_part_are_declared() -> None:
    target = PartsTarget({"": part(1, "/a", "/b", following="t"), "t": part(2, "/c")})
    assert [each.definition["path"] for each in target.declared_endpoints] == ["/a", "/b", "/c"]


def test_a_part_that_is_missing_is_said() -> None:
    target = PartsTarget({"": part(1, "/a", "/b", following="t"), "t": part(2)})
    with pytest.raises(Failure, match="incomplete"):
        assert target.declared_endpoints


def test_every_part_states_how_many_there_are() -> None:
    target = PartsTarget({"": part(1, "/a", "/b", following="t"), "t": part(2, "/c", of=3)})
    with pytest.raises(Failure, match="part 2 of 2 is one of 3"):
        assert target.declared_endpoints


def test_octets_of_parts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target can make its answers large: 256 parts of 256 MiB are allowed each, and not together."""
    parts = {"": part(1, "/a", "/b", following="t"), "t": part(2, "/c")}
    size = len(json.dumps(parts["t"]))
    for most, passes in ((size, True), (size - 1, False)):
        monkeypatch.setattr(manifest_parts, "MOST_OCTETS", most)
        target = PartsTarget(parts)
        if passes:
            assert len(target.declared_endpoints) == 3
        else:
            with pytest.raises(Failure, match="more than"):
                assert target.declared_endpoints
