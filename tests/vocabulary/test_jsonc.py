"""JSON with comments: read as editors do, and changed in one place only."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agtphost.vocabulary.jsonc import JSONCError, parse, put, remove

ENTRY = {"command": "agtp", "args": ["mcp-bridge"]}
KEPT = """\
// Mine: do not lose this.
{
\t"inputs": [{"id": "token", "password": true,},],
\t"servers": {
\t\t"github": { "url": "https://mcp.example/x" }, // by hand
\t\t/* off: "other": {} */
\t},
\t"more": "a // b /* c */ \\u00e9", // end
}
"""


def test_what_editors_read_is_read() -> None:
    """Comments and trailing commas, and none of both inside of texts."""
    assert parse(KEPT).value == {
        "inputs": [{"id": "token", "password": True}],
        "servers": {"github": {"url": "https://mcp.example/x"}},
        "more": "a // b /* c */ é",
    }
    assert parse("\ufeff[1, -2.5e3, null,]").value == [1, -2500.0, None]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("{\n'a': 1}", 2),
        ('{\n"a": 1\n"b": 2}', 3),
        ('{"a" 1}', 1),
        ('{"a": nan}', 1),
        ('{"a": 01}', 1),
        ('{"a": "x\n"}', 1),
        ('{"a": 1} 2', 1),
        ('{"a": 1,, }', 1),
        ("[1 2]", 1),
        ("[,]", 1),
        ('{"a": 1, "a": 2}', 1),
        ("{ /* open\n", 1),
        ('{\n"servers": {', 2),
        ("[" * 1000, 1),
    ],
)
def test_what_is_none_is_told_with_its_line(text: str, line: int) -> None:
    """And no change is made of it."""
    with pytest.raises(JSONCError) as raised:
        parse(text)
    assert raised.value.line == line
    if text:
        with pytest.raises(JSONCError):
            put(text, "servers", "agtp", ENTRY)


@pytest.mark.parametrize("text", ["[]", '"x"', '{"servers": []}', '{"servers": null}'])
def test_what_is_no_table_is_left(text: str) -> None:
    """A document of another shape has no place for an entry."""
    for change in (lambda: put(text, "servers", "agtp", ENTRY), lambda: remove(text, "servers", "agtp")):
        with pytest.raises(JSONCError, match="is not an object"):
            change()


COMMENT = re.compile(r"(?:^|\s)(//.*|/\*.*?\*/)")
TEXTS = [
    KEPT,
    KEPT.replace("\n", "\r\n"),
    KEPT.replace("}, // by hand", "} // by hand"),
    '{\n  "servers": {\n    "a": {}\n  }\n}\n',
    '{\n    "servers": {}\n}',
    '{"servers": {"a": 1}, "b": 2}',
    '{"servers": {"a": 1,}}',
]


@pytest.mark.parametrize("text", TEXTS)
def test_an_entry_comes_and_goes_and_nothing_else_changes(text: str) -> None:
    """The value is there; every line of before is there, a comma apart; and once it is removed the text is the old."""
    changed = put(text, "servers", "agtp", ENTRY)
    assert parse(changed).value["servers"].pop("agtp") == ENTRY
    left = {key: value for key, value in parse(changed).value["servers"].items() if key != "agtp"}
    assert left == parse(text).value["servers"]
    assert COMMENT.findall(changed) == COMMENT.findall(text)
    assert ("\r" in text) == ("\r" in changed) and (changed.count("\r") in (0, changed.count("\n")))
    assert remove(changed, "servers", "agtp") == text
    again = put(changed, "servers", "agtp", {"command": "other"})
    assert parse(again).value["servers"]["agtp"] == {"command": "other"}
    assert remove(text, "servers", "agtp") == text


def test_a_first_entry() -> None:
    """In no file, an empty one, one without servers, and one with comments alone in them."""
    for text in ("", " \n", "{}", '{"inputs": []}', '{\n  "servers": {\n    // none yet\n  }\n}\n'):
        changed = put(text, "servers", "agtp", ENTRY)
        assert parse(changed).value["servers"] == {"agtp": ENTRY}
        assert ("// none yet" in text) == ("// none yet" in changed)


LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
VALUES: st.SearchStrategy[Any] = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)


@given(
    document=st.dictionaries(st.text(max_size=4), VALUES, max_size=4),
    servers=st.none() | st.dictionaries(st.text(max_size=4), VALUES, max_size=4),
    indent=st.sampled_from([None, 2, 4, "\t"]),
    name=st.text(max_size=4),
)
def test_any_document_keeps_all_else(document: dict[str, Any], servers: Any, indent: Any, name: str) -> None:
    """Whatever it has: after a change exactly that member differs, and after its removal none of the others does."""
    if servers is not None:
        document["servers"] = servers
    text = json.dumps(document, indent=indent)
    expected = {**document, "servers": {**document.get("servers", {}), name: ENTRY}}
    if not isinstance(document.get("servers", {}), dict):
        return
    changed = put(text, "servers", name, ENTRY)
    assert parse(changed).value == expected == json.loads(changed)
    del expected["servers"][name]
    assert parse(remove(changed, "servers", name)).value == expected == json.loads(remove(changed, "servers", name))
