"""The sample's providers: what they read in a text, and what a hostile text costs them."""

from __future__ import annotations

import runpy
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

PROVIDERS = runpy.run_path(str(Path(__file__).parents[3] / "etc" / "handlers" / "providers.py"))
PARTIES = {"parties": {"type": "array", "items": {"type": "string"}}}


def extract(source: str, properties: dict[str, Any]) -> dict[str, Any]:
    """The data that the sample's EXTRACT reads."""
    context = SimpleNamespace(input={"source": source, "schema": {"type": "object", "properties": properties}})
    found: dict[str, Any] = PROVIDERS["extract"](context)["data"]
    return found


def test_parties_of_a_contract_are_found() -> None:
    """Names of several words, and what is said between them."""
    text = "This agreement is made between Acme Trading Ltd (the seller) and Bob Stone, on 1 May 2026."
    assert extract(text, PARTIES) == {"parties": ["Acme Trading Ltd", "Bob Stone"]}


@pytest.mark.parametrize(
    "text",
    ["between " + "A" * 5_000, "between " + "A " * 5_000, "between A" * 2_000, "between " + "Aa and " * 2_000],
    ids=["letters", "words", "beginnings", "ends"],
)
def test_no_text_holds_the_interpreter(text: str) -> None:
    """A regular expression cannot be interrupted: one with nested repetitions took minutes for sixty letters."""
    began = time.thread_time()
    extract(text, PARTIES)
    assert time.thread_time() - began < 2


def test_schemas_that_permit_anything_are_read() -> None:
    """``true`` is a schema, for a field and for the items of a list."""
    properties: dict[str, Any] = {"city": True, "tags": {"type": "array", "items": True}}
    assert extract("city: Graz", properties) == {"city": "Graz"}


def test_a_number_that_is_too_long_is_not_cut() -> None:
    """Its first digits are another number."""
    assert extract("total: " + "9" * 40, {"total": {"type": "integer"}}) == {}
    assert extract("total: 1,250.50 EUR", {"total": {"type": "number"}}) == {"total": 1250.5}
