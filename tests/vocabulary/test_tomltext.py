"""The line of every key, whatever the document looks like."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agtphost.vocabulary import tomlparser, tomltext
from agtphost.vocabulary.tomltext import TomlError, locate, read
from tests.rows import each_row
from tests.system.hosting import ETC

DOCUMENT = '''# a comment with [brackets] = and "quotes"
top = 1
[a.b]  # header
"quoted key" = """
x = 1
[not.a.table]
\\""" """
'it''s' = 5
c.d = [ # list
  1, # one
  "two ] , }",
  [ 3,
    4 ],
  { e = 1,  f = [
    5 ] },
]
[[t]]
x = {}
[t.u]
y = \'\'\'a
b\'\'\'\'\'
[[t]]
x = { a.b = 1 }
[[t.v]]
z = 1979-05-27T07:32:00Z
[[t.v]]
z = 2
'''.replace("'it''s'", '"it\\u0027s"')

EXPECTED = {
    ("top",): 2,
    ("a",): 3,
    ("a", "b"): 3,
    ("a", "b", "quoted key"): 4,
    ("a", "b", "it's"): 8,
    ("a", "b", "c"): 9,
    ("a", "b", "c", "d"): 9,
    ("a", "b", "c", "d", 0): 10,
    ("a", "b", "c", "d", 1): 11,
    ("a", "b", "c", "d", 2): 12,
    ("a", "b", "c", "d", 2, 0): 12,
    ("a", "b", "c", "d", 2, 1): 13,
    ("a", "b", "c", "d", 3): 14,
    ("a", "b", "c", "d", 3, "e"): 14,
    ("a", "b", "c", "d", 3, "f"): 14,
    ("a", "b", "c", "d", 3, "f", 0): 15,
    ("t",): 17,
    ("t", 0): 17,
    ("t", 0, "x"): 18,
    ("t", 0, "u"): 19,
    ("t", 0, "u", "y"): 20,
    ("t", 1): 22,
    ("t", 1, "x"): 23,
    ("t", 1, "x", "a"): 23,
    ("t", 1, "x", "a", "b"): 23,
    ("t", 1, "v"): 24,
    ("t", 1, "v", 0): 24,
    ("t", 1, "v", 0, "z"): 25,
    ("t", 1, "v", 1): 26,
    ("t", 1, "v", 1, "z"): 27,
}


def locations(value: Any, at: tuple[str | int, ...] = ()) -> set[tuple[str | int, ...]]:
    """Every location that a parsed document has."""
    steps: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        steps = list(value.items())
    elif isinstance(value, list):
        steps = list(enumerate(value))
    found = {at} if at else set()
    for step, inner in steps:
        found |= locations(inner, (*at, step))
    return found


@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
def test_every_construct_of_toml(line_break: str) -> None:
    """Comments, quoted and dotted keys, all four kinds of text, nested lists and tables."""
    text = DOCUMENT.replace("\n", line_break)
    assert locate(text) == EXPECTED
    assert set(locate(text)) == locations(tomllib.loads(text))


@each_row("text", ["", "\n\n", "# only a comment", "a=1", "[a]", "[[a]]", "a='''\n'''", 'a=""', "a=''"])
def test_small_documents(text: str) -> None:
    """Ends without a line break, and documents of next to nothing."""
    assert set(locate(text)) == locations(tomllib.loads(text))


def test_the_nearest_line_stands_for_what_is_absent() -> None:
    """A key that is missing is reported at its section."""
    document = read("\n[a]\nb = 1\n")
    assert document.line(("a", "b")) == 3
    assert document.line(("a", "c", "d")) == 2
    assert (document.line(("x",)), document.line(("x",), 0)) == (1, 0)


_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r", exclude_categories=("Cc", "Cs")), max_size=8)
_VALUES = st.recursive(
    st.booleans() | st.integers(-(2**60), 2**60) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _toml(value: Any, gap: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, list):
        return f"[{gap}" + f",{gap}".join(_toml(item, gap) for item in value) + f"{gap}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(key)} = {_toml(item, ' ')}" for key, item in value.items()) + "}"
    return str(value)


@given(st.dictionaries(_TEXT, _VALUES, max_size=4))
def test_any_document_is_located_completely(tree: dict[str, Any]) -> None:
    """Whatever tomllib finds, this finds too: the same locations, and top-level keys in line order."""
    text = "".join(f"{_quoted(key)} = {_toml(value, ' # ] x' + chr(10))}\n" for key, value in tree.items())
    assert tomllib.loads(text) == tree
    lines = locate(text)
    assert set(lines) == locations(tree)
    tops = [lines[(key,)] for key in tree]
    assert tops == sorted(tops)


def test_the_line_of_the_whole_document_takes_no_scan() -> None:
    """Each sound file of a host is asked for it, and a scan takes longer than parsing did."""
    document = read('method = "QUERY"\n\n[input_schema]\ntype = "object"\n')
    assert document.line(()) == 1
    assert "lines" not in vars(document)
    assert document.line(("input_schema", "type")) == 4
    assert "lines" in vars(document)


def test_a_place_that_is_not_in_the_file_has_the_line_around_it() -> None:
    """The nearest table or key around it, and the line that is asked for where there is none."""
    document = read("a = 1\n[b]\nc = 1\n")
    assert document.line(("b", "d")) == 2
    assert document.line(("d", "e"), 7) == 7


@each_row(
    "text",
    [
        'a = "b',
        "a = 1\na = 2",
        "[a]\n[a]",
        "a = 1979-05-27T07:32",
        'a = "\\e"',
        "a = {b = 1,\n c = 2}",
        "a = [" * 2_000,
    ],
)
def test_what_is_wrong_is_said_in_the_same_words(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled parser of the extra refuses what Python's own does, and that says why, with the line."""
    assert tomlparser._fast_loads() is not None
    with pytest.raises(TomlError) as fast:
        tomltext.read(text)
    with monkeypatch.context() as without, pytest.raises(TomlError) as plain:
        without.setattr(tomlparser, "_fast_loads", lambda: None)
        tomltext.read(text)
    assert (str(fast.value), fast.value.line, fast.value.hint) == (str(plain.value), plain.value.line, plain.value.hint)


def test_both_parsers_read_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file of the sample deployment, and values of every kind."""
    numbers = "a = [1, -0.5, inf, 1e3, 0xff, true]\nd = 1979-05-27T07:32:00Z\n"
    kinds = numbers + "\"é.b\" = '''x\ny'''\n[[t.u]]\nz = { y.x = 1 }\n"
    texts = [kinds, *(file.read_text() for file in sorted(ETC.rglob("*.toml")))]
    fast = [tomltext.read(text).tree for text in texts]
    monkeypatch.setattr(tomlparser, "_fast_loads", lambda: None)
    assert len(texts) > 5 and [tomltext.read(text).tree for text in texts] == fast


@each_row(
    "text, line, cure, cured",
    [
        ("a = 1\nb = 'x\"\nc = 2\n", 2, """write " for the first ' of this line""", 'b = "x"'),
        (
            "a = 1\nb = { t = 'x\", m = 1 }\nc = 2\n",
            2,
            """write " for the first ' of this line""",
            'b = { t = "x", m = 1 }',
        ),
        ("a = 1\nb = 'x\nc = 2\n", 2, "end this line with '", "b = 'x'"),
        ("a = 1\nb = \"x'\nc = 'y'\n", 2, """write " for the first ' of this line""", 'b = "x"'),
        ("[b]]\nc = 2\n", 1, "write [b]", "[b]"),
        ("[[b]]\nc = 1\n[b]]\nc = 2\n", 3, "write [[b]]", "[[b]]"),
        ("b = { t = 1, m\nc = 2\n", 1, 'complete b: add = "..." and } to this line', 'b = { t = 1, m = "" }'),
    ],
)
def test_what_is_not_closed_is_found_in_its_line(text: str, line: int, cure: str, cured: str) -> None:
    """Python's parser reports the end of the document if no other single quote follows; the cure works as typed."""
    with pytest.raises(TomlError) as caught:
        read(text)
    assert (caught.value.line, caught.value.hint.partition(":")[0]) == (line, cure.partition(":")[0])
    assert caught.value.hint.startswith(cure)
    lines = text.split("\n")
    lines[line - 1] = cured
    assert read("\n".join(lines)).tree["b"]


def test_a_table_of_a_list_with_single_brackets_says_how_to_write_several() -> None:
    """The tables of a list that all have the brackets of a single one; another table is there only once."""
    with pytest.raises(TomlError) as wrong:
        tomltext.read("[recipe.step]\nmethod = 1\n[recipe.step]\nmethod = 2\n")
    assert (
        wrong.value.line == 3 and "or write [[recipe.step]] in both places if there may be several" in wrong.value.hint
    )
    with pytest.raises(TomlError) as wrong:
        tomltext.read("[host]\na = 1\n[host]\nb = 2\n")
    assert wrong.value.hint.endswith("put what is below it under the other one")
