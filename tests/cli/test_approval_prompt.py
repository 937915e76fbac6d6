"""How ``agtp tools approve`` shows two definitions."""

from __future__ import annotations

import json

from agtphost.cli.approval_prompt import difference


def test_a_difference_shows_what_a_terminal_would_obey() -> None:
    """Escapes, bells and marks that turn a line round are written out, and stand in the line that changed."""
    old = json.dumps({"description": "Adds.", "name": "work"})
    new = json.dumps({"description": "Adds.\x1b[2J\x07 \u202eevil\u2066", "name": "work"}, ensure_ascii=False)
    lines = difference(old, new)
    assert [line[:1] for line in lines if "description" in line] == ["-", "+"]
    assert not any(sign in "".join(lines) for sign in "\x1b\x07\u202e\u2066")
    assert all(line.isprintable() for line in lines)
    assert "evil" in "".join(lines) and any(line.startswith(" ") and "name" in line for line in lines)


def test_a_long_text_is_compared_line_by_line() -> None:
    """The one line of a description that changed is told, and a backslash before an n is no new line."""
    text = [f"line {number}" for number in range(40)]
    old = json.dumps({"description": "\n".join(text), "path": "C:\\new"})
    new = json.dumps({"description": "\n".join([*text[:20], "and everything else", *text[21:]]), "path": "C:\\new"})
    lines = difference(old, new)
    assert sum(line.startswith("-") for line in lines) == sum(line.startswith("+") for line in lines) == 2
    assert any(line.startswith("+") and "and everything else" in line for line in lines)
    assert difference(old, old) == []
    assert any("C:\\\\new" in line for line in difference("{}", json.dumps({"path": "C:\\new"})))
