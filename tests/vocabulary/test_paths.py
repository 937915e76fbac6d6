"""The path grammar: request paths, templates, percent-decoding, queries."""

from __future__ import annotations

import time
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agtphost.vocabulary import paths
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.paths import MAX_MEMO, PathError, PathGrammar, parse_query, parse_template
from tests.measuring import measured
from tests.rows import each_row

WORDS = Catalog.load().methods
LEGAL = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;=:@"


def grammar() -> PathGrammar:
    return PathGrammar(WORDS)


GOOD = [
    "/",
    "/catalog",
    "/bookings",
    "/My_Items/sub-Item/x/y/z",
    "/a%20b",
    "/a/b;v=1/(x)'!*$&+,=@:~",
    "/.well-known/agtp",
    "/...",
    "/caf%C3%A9",
    "/a%2Fb",
    "/" + "a/" * 500 + "b",
    "/--",
]


@each_row("path", GOOD, ids=lambda path: path[:20])
def test_good_paths_pass(path: str) -> None:
    """API-026, API-034, API-039: any case, depth and punctuation that the ABNF has, seen first and again."""
    checked = grammar()
    assert checked.offence(path) is None
    assert checked.offence(path) is None


BAD = [
    ("/Book", "Book"),
    ("/bo-ok", "bo-ok"),
    ("/B_O_O_K/x", "B_O_O_K"),
    ("/x/-query-", "-query-"),
    ("/%42ook", "%42ook"),
    ("/b%6f%6Fk/x", "b%6f%6Fk"),
    ("/a/map/b", "map"),
    ("/catalog/", ""),
    ("//", ""),
    ("/a//b", ""),
    ("", ""),
    ("a", "a"),
    ("*", "*"),
    ("/a<b", "a<b"),
    ("/a b", "a b"),
    ("/a\tb", "a\tb"),
    ("/a\n", "a\n"),
    ("/a#b", "a#b"),
    ("/a?b", "a?b"),
    ("/a\\b", "a\\b"),
    ("/{x}", "{x}"),
    ("/a%", "a%"),
    ("/a%2", "a%2"),
    ("/a%zz", "a%zz"),
    ("/a%00", "a%00"),
    ("/a%0d%0ab", "a%0d%0ab"),
    ("/a%7f", "a%7f"),
    ("/a%c2%85", "a%c2%85"),
    ("/%c0%af", "%c0%af"),
    ("/%ed%a0%80", "%ed%a0%80"),
    ("/a/..", ".."),
    ("/./a", "."),
    ("/a/%2e%2e/b", "%2e%2e"),
    ("/a/.%2E/b", ".%2E"),
    ("/é", "é"),
]


@each_row(("path", "segment"), BAD)
def test_bad_paths_are_refused_with_their_segment(path: str, segment: str) -> None:
    """API-026, API-027, API-029, T-RL: 460 names the offending segment; asking again changes nothing."""
    checked = grammar()
    for _ in range(2):
        offence = checked.offence(path)
        assert offence is not None
        assert offence.segment == segment
        assert offence.explanation


def test_the_reported_segment_is_bounded() -> None:
    """A response must not grow with what the caller sent."""
    offence = grammar().offence("/" + "<" * 5_000)
    assert offence is not None
    assert len(offence.segment) == 128


@given(word=st.sampled_from(sorted(WORDS)), data=st.data())
def test_no_spelling_of_a_method_passes(word: str, data: st.DataObject) -> None:
    """API-027: any case, with - and _ anywhere, percent-encoded or not."""
    spelled = ""
    for char in word:
        char = char if data.draw(st.booleans()) else char.lower()
        char = char if data.draw(st.booleans()) else f"%{ord(char):02x}"
        spelled += char + data.draw(st.sampled_from(["", "-", "_", "%2d"]))
    offence = grammar().offence(f"/a/{spelled}/b")
    assert offence is not None
    assert offence.segment == spelled


@given(st.lists(st.text(LEGAL, min_size=1, max_size=12), min_size=1, max_size=6))
def test_the_verdict_follows_the_definition(segments: list[str]) -> None:
    """A path is bad exactly if a segment, stripped, is a method or a dot segment."""
    bad = [s for s in segments if s in (".", "..") or s.replace("-", "").replace("_", "").upper() in WORDS]
    offence = grammar().offence("/" + "/".join(segments))
    assert (offence.segment if offence else None) == (bad[0] if bad else None)


@given(st.text(max_size=40))
def test_no_text_makes_the_grammar_raise(path: str) -> None:
    """Whatever arrives, the answer is a verdict."""
    offence = grammar().offence(path)
    assert offence is None or offence.explanation


def test_an_unguarded_memo_would_be_noticed() -> None:
    """The control: a grammar without words lets a method through."""
    assert PathGrammar(()).offence("/Book") is None


def test_the_memo_is_bounded() -> None:
    """T-ID-40: a flood of different paths does not make the host grow."""
    checked = grammar()
    for number in range(3 * MAX_MEMO):
        checked.offence(f"/item/{number}")
    assert checked.memo_size <= MAX_MEMO
    checked.offence("/" + "a" * 1_000)
    assert checked.memo_size <= MAX_MEMO


@measured
def test_a_known_path_costs_a_look_up() -> None:
    """The request path: under two microseconds for a path seen before, and it is never checked twice."""
    checked = grammar()
    checked.offence("/library/9780141439518")
    best = min(_run(checked, 10_000) for _ in range(5))
    assert best / 10_000 < 2e-6


def _run(checked: PathGrammar, times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        checked.offence("/library/9780141439518")
    return time.perf_counter() - start


# Templates


@each_row(
    ("path", "segments", "parameters"),
    [
        ("/", (), ()),
        ("/room", ("room",), ()),
        ("/orders/{order_id}/line-items/{n}", ("orders", None, "line-items", None), ("order_id", "n")),
        ("/orders/{query}", ("orders", None), ("query",)),
    ],
)
def test_templates(path: str, segments: tuple[str | None, ...], parameters: tuple[str, ...]) -> None:
    """API-028, API-032: literal and parameter segments; a parameter may have a method's name."""
    assert list(paths.template_faults(path, WORDS)) == []
    template = parse_template(path)
    assert (template.segments, template.parameters) == (segments, parameters)


@each_row(
    ("path", "fault"),
    [
        ("room", "does not begin with a slash"),
        ("", "does not begin with a slash"),
        ("/room/", "empty segment"),
        ("/a//b", "empty segment"),
        ("/x/prefix-{id}", "mixes"),
        ("/x/{id}.json", "mixes"),
        ("/x/{a}{b}", "mixes"),
        ("/a/{id}/b/{id}", "occurs twice"),
        ("/a/{?q}", "RFC 6570"),
        ("/a/{?q,page}", "RFC 6570"),
        ("/a/{+r}", "RFC 6570"),
        ("/a/{#f}", "RFC 6570"),
        ("/a{/p}", "RFC 6570"),
        ("/a/{;m}", "RFC 6570"),
        ("/a/{.x}", "RFC 6570"),
        ("/a{&x}", "RFC 6570"),
        ("/a/{list*}", "RFC 6570"),
        ("/a/{v:3}", "RFC 6570"),
        ("/a/{x,y}", "RFC 6570"),
        ("/a/{}", "not a parameter"),
        ("/a/{b c}", "not a parameter"),
        ("/a/{b", "not a parameter"),
        ("/a/b}", "not a parameter"),
        ("/a/{b-c}", "not a parameter"),
        ("/book/{id}", "the method name BOOK"),
        ("/a b", "character"),
        ("/a/..", "dot segments"),
        ("/a/<id>", "a parameter is written {id}"),
        ("/a/<int:id>", "a parameter is written {id}"),
        ("/a/[id]", "a parameter is written {id}"),
    ],
)
def test_bad_templates_are_refused(path: str, fault: str) -> None:
    """API-030, API-031, API-032: each at registration, with the rule."""
    assert any(fault in found for found in paths.template_faults(path, WORDS))


@each_row(
    ("path", "warned"),
    [("/text/:id", ["{id}"]), ("/files/*rest", ["{rest}"]), ("/a/:b/:c", ["{b}", "{c}"])]
    + [(path, []) for path in ("/", "/text/{id}", "/a/b:c", "/a/*", "/a/:1", "/v1/books:find")],
)
def test_parameters_of_other_frameworks_are_warned_of(path: str, warned: list[str]) -> None:
    """A segment such as ``:id`` is good literal text, and hardly ever meant so."""
    assert list(paths.template_faults(path)) == []
    found = list(paths.template_warnings(path))
    assert len(found) == len(warned)
    assert all(each.endswith(f"a parameter is written {meant}") for each, meant in zip(found, warned, strict=True))


def test_a_bad_template_cannot_be_parsed() -> None:
    """The same rules guard what is built from templates."""
    with pytest.raises(PathError, match="mixes"):
        parse_template("/x/prefix-{id}")


# Decoding


@given(st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"])))
def test_decoding_undoes_encoding(text: str) -> None:
    """API-037: what a client encodes arrives, exactly once decoded."""
    assert paths.decode(quote(text, safe="")) == text


@each_row(("text", "decoded"), [("%2525", "%25"), ("a+b", "a+b"), ("%2C", ","), ("a%2Fb", "a/b")])
def test_decoding_happens_once(text: str, decoded: str) -> None:
    """T-RL: a second decoding would let one thing be checked and another be used."""
    assert paths.decode(text) == decoded


@each_row("text", ["%", "%4", "%4g", "%00", "a%0A", "\x1b", "%ff", "%c0%80", "%E2%80%A8"])
def test_what_cannot_be_decoded_is_refused(text: str) -> None:
    """T-RL: stray percent signs, control characters, and what is not UTF-8."""
    with pytest.raises(PathError):
        paths.decode(text)


@each_row(
    ("query", "fields"),
    [
        ("", {}),
        ("a=1", {"a": "1"}),
        ("a=1&a=2", {"a": "2"}),
        ("a=1&&b=&c", {"a": "1", "b": "", "c": ""}),
        ("date=050526&attendees=alice%2Cbob", {"date": "050526", "attendees": "alice,bob"}),
        ("%61=x%3Dy=z", {"a": "x=y=z"}),
        ("a=1;b=2", {"a": "1;b=2"}),
        ("a=b+c", {"a": "b+c"}),
    ],
)
def test_queries(query: str, fields: dict[str, str]) -> None:
    """API-037: decoded, the last value of a repeated key counts."""
    assert parse_query(query) == fields


@each_row("query", ["=1", "a=%0a", "a=%zz", "%00=1", "&".join(f"k{n}=1" for n in range(129))])
def test_bad_queries_are_refused(query: str) -> None:
    """A query is input and follows the same rules as any."""
    with pytest.raises(PathError):
        parse_query(query)
