"""The filter language of records: the text, the options, and what is wrong with a filter."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agtphost.audit.filters import FIELDS, FilterError, RecordFilter
from agtphost.audit.filters.fields import MOST_CHARACTERS
from agtphost.audit.filters.query_text import LONGEST
from agtphost.audit.filters.record_filter import LONGEST_COMPARED, MOST_COMPARED, close_names
from agtphost.stores import Search
from tests.programmes import length
from tests.rows import each_row

NOW = 1_795_780_800.0
"""2026-11-27T12:00:00Z."""

DEMO = "d0" * 32


def parse(text: str, /, **options: str) -> RecordFilter:
    return RecordFilter.parse(text, options, NOW)


def search(text: str, /, **options: str) -> Search:
    return parse(text, **options).to_search(lambda name: [DEMO] if name == "demo" else [], lambda: ["demo"])


def test_a_text_and_options_give_the_same_filter() -> None:
    """Each field can be written in the text or given as an option."""
    text = 'agent:demo status:4XX method:query tool:files.read from:2026-11-27T10:00Z until:-30m "some text"'
    options = {"agent": "demo", "status": "4xx", "method": "QUERY", "tool": "files.read", "until": "-30m"}
    as_options = search("", **options, **{"from": "2026-11-27T11:00+01:00", "text": "some text"})
    assert search(text) == as_options
    assert as_options == Search(
        agent=DEMO,
        status_class=4,
        method="QUERY",
        tool="files.read",
        since=1_795_773_600_000,
        until=1_795_779_000_000,
        text=("some text",),
    )


def test_few_names_are_compared_with_an_unknown_one() -> None:
    """Only a hundred of about its length, and none with a long one, so that no foreign name makes a turn long."""
    assert close_names("dmeo", ["x" * 64] * 1_000 + ["demo"]) == ["demo"]
    others = [f"{number:04}" for number in range(MOST_COMPARED)]
    assert close_names("dmeo", [*others[1:], "demo"]) == ["demo"] and close_names("dmeo", [*others, "demo"]) == []
    long = "a" * (LONGEST_COMPARED + 1)
    assert close_names(long, [long + "b"]) == [] and close_names(long[1:], [long]) == [long]


def test_every_example_is_a_filter() -> None:
    """The reference shows filters that work, and an empty filter selects everything."""
    for field in FIELDS.values():
        assert parse(field.example).to_text().startswith(field.name if field.name != "text" else '"'), field.name
    assert search("") == search("  \n ") == Search()


@each_row(
    ("text", "expected"),
    [
        ("agent:" + DEMO.upper().lower(), Search(agent=DEMO)),
        ("caller:none chain:host", Search(caller="", chain="")),
        ("status:404", Search(status=404)),
        ('endpoint:"query /library"', Search(method="QUERY", path="/library")),
        ("endpoint:/library", Search(path="/library")),
        ('tool:"QUERY /library"', Search(method="QUERY", path="/library")),
        ("person:anna@example.com", Search(person="anna@example.com")),
        ('"error:timeout" x', Search(text=("error:timeout", "x"))),
        (r'tool:"a \"quoted\" \\ one"', Search(tool=r'a "quoted" \ one')),
        ("from:2026-11-27 until:2026-11-27", Search(since=1_795_737_600_000, until=1_795_824_000_000)),
        ("from:now", Search(since=1_795_780_800_000)),
        ("from:1h", Search(since=1_795_777_200_000)),
        ("text:日本語", Search(text=("日本語",))),
    ],
)
def test_a_filter_means_a_search(text: str, expected: Search) -> None:
    """Each form of a value is read as the reference says."""
    assert search(text) == expected


@each_row(
    ("text", "field", "explanation"),
    [
        ("status:abc", "status", "status 'abc' is not valid. Write a number from 100 to 999, or a class such as 4xx."),
        ("status:99", "status", "is not valid"),
        ("agnet:demo", "filter", "no field 'agnet'. Did you mean agent?"),
        ("agent:../x", "agent", "is not valid"),
        ("agent:nobody", "agent", "'nobody' is not the name of an agent here"),
        ("caller:DEMO", "caller", "Did you mean demo?"),
        ("caller:dmeo", "caller", "Did you mean demo?"),
        ("from:2026-11-27T10:00", "from", "has no time zone. Write 2026-11-27T10:00Z for UTC"),
        ("from:yesterday", "from", "is not a time. Write 2026-11-27T10:00Z"),
        ("from:9999999999999999h", "from", "is not a time"),
        ("until:2026-13-01", "until", "is not a time"),
        ("until:9999-12-31", "until", "is not a time"),
        ("from:-1h until:-2h", "until", "is not after from '-1h'"),
        ("from:-1h until:-1h", "until", "is not after"),
        ("status:1xx status:200", "status", "is given twice"),
        ("endpoint:/a path:/b", "endpoint", "endpoint and path are both given"),
        ('tool:"QUERY /a" endpoint:/a', "tool", "tool and endpoint are both given"),
        ("session:a\u00e4", "session", "1 to 128 visible ASCII"),
        ("task:", "task", "is not valid"),
        ('tool:"unclosed', "filter", "quotation mark out of place"),
        ('a"b', "filter", "quotation mark out of place"),
        ("x" * 10_000, "filter", "has 10000 characters. Write at most 2000."),
        ("agent:\u202edemo", "filter", "has the character U+202E, which does not show"),
        ("text\x00", "filter", "has the character U+0000"),
        (" ".join("abcdefghi"), "text", "has 9 texts. Write at most 8."),
        ("tool:" + "x" * 201, "tool", "tool has 201 characters. Write at most 200."),
        ("tool:", "tool", "Write 1 to 200 characters"),
        ("operator:" + "a2" * 32, "operator", "Write a name, or sha256:... as records and `agtp cert show FILE`"),
        ("agent:мария", "agent", "agent 'мария' is not valid"),
    ],
)
def test_a_fault_is_named_with_its_cure(text: str, field: str, explanation: str) -> None:
    """The error has the field, what is wrong with the value, and what to write."""
    with pytest.raises(FilterError) as refused:
        search(text)
    assert refused.value.field == field and explanation in str(refused.value)
    assert str(refused.value).isprintable() and len(str(refused.value)) < 600


@pytest.mark.parametrize(
    ("field", "most"),
    [("tool", MOST_CHARACTERS), ("person", MOST_CHARACTERS), ("operator", MOST_CHARACTERS), ("path", LONGEST)],
)
def test_a_value_that_is_too_long_is_refused_with_what_its_field_takes(field: str, most: int) -> None:
    """A remedy that is refused in turn helps no one."""
    with pytest.raises(FilterError, match=f"^{field} has 10000 characters. Write at most {most}.$"):
        RecordFilter.from_terms([(field, "x" * 10_000)], 0.0)


def test_a_name_that_agents_share_lists_them() -> None:
    """The message names the Agent-IDs to choose from, and few of many."""
    with pytest.raises(FilterError, match=f"7 agents have the name 'twin'. Write the Agent-ID of one of them: {DEMO},"):
        parse("agent:twin").to_search(lambda name: [DEMO] * 7)


TERM = st.one_of(
    st.text(max_size=20),
    st.sampled_from([field.example for field in FIELDS.values()]),
    st.tuples(st.sampled_from([*FIELDS, "", "agnet"]), st.text(max_size=12)).map(":".join),
    st.tuples(st.sampled_from([*FIELDS]), st.text(max_size=12)).map(lambda pair: f'{pair[0]}:"{pair[1]}"'),
)


@settings(max_examples=length(400, 100_000), deadline=None)
@given(st.lists(TERM, max_size=6).map(" ".join))
def test_any_text_is_a_filter_or_an_error(text: str) -> None:
    """A text gives a filter, which its own text gives again, or an error that can be printed."""
    try:
        found = parse(text)
        meant = found.to_search(lambda name: [DEMO])
    except FilterError as error:
        assert str(error).isprintable()
        return
    if len(found.to_text()) <= LONGEST:
        again = RecordFilter.parse(found.to_text(), now=NOW + 60)
        assert again.to_search(lambda name: [DEMO]) == meant and again.to_text() == found.to_text()
