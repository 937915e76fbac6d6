"""What commands print for machines."""

from __future__ import annotations

import json
import os
import sys
import tracemalloc

import pytest

from agtphost.cli.output import WRITTEN_AT_ONCE, print_json

SHARED = {"name": "x" * 200, "members": [1, None, True, "é"]}


def test_json_is_printed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of many megabytes takes little memory: its parts may be the same objects, as in a long manifest."""
    value = {"endpoints": [SHARED] * 20_000}
    with open(os.devnull, "w") as sink:
        monkeypatch.setattr(sys, "stdout", sink)
        tracemalloc.start()
        try:
            print_json(value)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert len(json.dumps(SHARED)) * 20_000 > 4 << 20
    assert peak < 2 << 20


@pytest.mark.parametrize("number", (0, 1, WRITTEN_AT_ONCE // 100, WRITTEN_AT_ONCE // 50))
def test_pieces_are_the_text(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    """However many pieces there are, together they are the text and the end of its line."""
    print_json([SHARED] * number)
    assert capsys.readouterr().out == json.dumps([SHARED] * number, indent=2) + "\n"
