"""Numbers in CSV: which columns are numbers, and what a comparison of a number with a text answers (METH-067)."""

from __future__ import annotations

from typing import Any

import pytest

from agtphost.errors import Refusal
from agtphost.methods.standard.pure import filter_records, statistics, transform
from agtphost.methods.standard.pure.number_columns import Columns
from agtphost.testing import MemoryHost, TestAgent
from tests.methods.standard.test_collections import OPEN
from tests.rows import each_row


def read(*cells: str, schema: Any = None) -> tuple[str, list[Any]]:
    """The type of one column, and its cells."""
    columns = Columns([{"x": cell} for cell in cells], schema)
    return columns.types["x"], [columns.convert({"x": cell}).get("x", "absent") for cell in cells]


TEXT: dict[str, tuple[str, ...]] = {
    "postcodes": ("01067", "10115"),
    "007": ("007",),
    "telephone numbers": ("+4930123456", "030123456"),
    "exponents, as part numbers have": ("1e5", "12E4"),
    "NaN": ("1", "NaN"),
    "infinity": ("1", "Infinity"),
    "account numbers beyond 2**53": ("9007199254740993",),
    "more digits than a double holds": ("0.12345678901234567890",),
    "mixed": ("1", "n/a"),
    "thousands": ("50,000",),
    "currency": ("$5",),
    "no digit before the point": (".5",),
    "no digit after the point": ("5.",),
    "digits of another script": ("٣",),
    "only empty": ("", ""),
    "flags": ("true", "false"),
    "very long": ("1" * 65,),
}


def test_a_column_with_a_cell_that_is_no_plain_number_stays_text() -> None:
    """Identifiers keep their zeros, and nothing is rounded."""
    for name, cells in TEXT.items():
        assert read(*cells) == ("text", [*cells]), name


def test_a_column_of_numbers_becomes_numbers() -> None:
    """Whole numbers stay whole, decimals keep their value, spaces around do not count, an empty cell is null."""
    assert read("50000", "-3", "0") == ("number", [50000, -3, 0])
    assert read("50000.00", "0.1", "19.90") == ("number", [50000.0, 0.1, 19.9])
    assert read("9007199254740992") == ("number", [2**53])
    assert read(" 5", "6 ", "", "  ") == ("number", [5, 6, None, None])
    assert isinstance(read("5")[1][0], int)


def test_the_schema_of_a_collection_decides() -> None:
    """What a schema declares as text stays text; what it declares as a number is read as one."""

    def schema(**of_x: Any) -> dict[str, Any]:
        return {"type": "object", "properties": {"x": of_x}}

    assert read("5", schema=schema(type="string")) == ("text", ["5"])
    assert read("5", schema=schema(enum=["5", "6"])) == ("text", ["5"])
    assert read("5", "1e5", "n/a", schema=schema(type="number")) == ("number", [5, 1e5, "n/a"])
    assert read("5", "", schema=schema(type="integer")) == ("number", [5, "absent"])
    assert read("5", "", schema=schema(type=["integer", "null"])) == ("number", [5, None])
    assert read("True", "false", "x", schema=schema(type="boolean")) == ("boolean", [True, False, "x"])
    assert read("5", schema={**schema(**{"$ref": "#/$defs/n"}), "$defs": {"n": {"type": "string"}}}) == ("text", ["5"])
    assert read("5", schema=schema(minimum=3)) == ("number", [5]), "no type is stated"
    loop = {**schema(**{"$ref": "#/$defs/n"}), "$defs": {"n": {"$ref": "#/$defs/n"}}}
    assert read("5", schema=loop) == ("number", [5])


def test_the_identifier_stays_text() -> None:
    """The column ``id`` names the record, whatever is in it."""
    assert Columns([{"id": "1"}]).types == {"id": "text"}


CSV = "id,amount,zip\np-1,61000.50,01067\np-2,40000.00,10115\np-3,70000.00,04109\n"


def test_methods_on_data_read_the_numbers_of_csv() -> None:
    """FILTER and ANALYZE compare and calculate; TRANSFORM writes numbers; FILTER to CSV writes each cell as it was."""
    found = filter_records.filter_records({"data": CSV, "criteria": {"amount": {"gt": 50000}}})
    assert [row["id"] for row in found["data"]] == ["p-1", "p-3"] and "warnings" not in found
    assert found["data"][0] == {"id": "p-1", "amount": 61000.5, "zip": "01067"}
    table = filter_records.filter_records({"data": CSV, "criteria": {"amount": {"lt": 50000}}, "output_format": "csv"})
    assert table["data"] == "id,amount,zip\np-2,40000.00,10115\n"
    assert statistics.analyze({"target": CSV})["examined"] == {"rows": 3, "members": ["amount"]}
    made = transform.transform({"source": CSV, "source_format": "csv", "target_format": "json"})
    assert made["data"][0]["amount"] == 61000.5 and made["data"][0]["zip"] == "01067"
    again = transform.transform({"source": CSV, "source_format": "csv", "target_format": "csv"})
    assert again["data"] == CSV


def test_a_byte_order_mark_is_no_part_of_a_column() -> None:
    """Spreadsheets write one: ``id`` is still the identifier, whether the format is said or guessed."""
    marked = f"\ufeff{CSV}"
    found = filter_records.filter_records({"data": marked, "criteria": {"amount": {"gt": 50000}}})
    assert [row["id"] for row in found["data"]] == ["p-1", "p-3"]
    made = transform.transform({"source": marked, "source_format": "csv", "target_format": "json"})
    assert [*made["data"][0]] == ["id", "amount", "zip"]


@each_row("source,named", [("id;n\na;5\n", "semicolons"), ("id\tn\na\t5\n", "tabs")], ids=["semicolons", "tabs"])
def test_another_separator_is_named(source: str, named: str) -> None:
    """A table of one column whose name holds it would find nothing, and say nothing."""
    with pytest.raises(Refusal, match=f"separated by {named}"):
        transform.transform({"source": source, "source_format": "csv", "target_format": "json"})
    alone = transform.transform({"source": "n\na;5\n", "source_format": "csv", "target_format": "json"})
    assert alone["data"] == [{"n": "a;5"}]


BARE: dict[str, tuple[str, list[int] | None]] = {
    "amount > 50000": ("amount > 50000", [1]),
    "without spaces": ("amount>=50000&&amount<70000.5", [1]),
    "below zero": ("amount < -1", [2]),
    "equal": ("amount == 7", [0]),
    "a text that looks like one": ("name == 'x > 5' && amount > 5", [0]),
    "a literal": ("amount > `50000`", [1]),
    "a quoted name": ('"n > 5" == 1 || amount > 50000', [1]),
    "no number": ("amount > 5x", None),
    "two points": ("amount > 1.2.3", None),
    "nothing": ("amount >", None),
}


@each_row("query,places", BARE.values(), ids=BARE)
def test_a_comparison_may_have_a_bare_number(query: str, places: list[int] | None) -> None:
    """METH-067: ``amount > 50000`` as agents write it; what stands in quotes stays, and the rest is 422 with a hint."""
    rows = [{"amount": 7, "name": "x > 5"}, {"amount": 60000, "name": "b"}, {"amount": -3, "name": "c"}]
    if places is None:
        with pytest.raises(Refusal) as refused:
            filter_records.filter_records({"data": rows, "criteria": query})
        assert '{"amount": {"gt": 5}}' in (refused.value.remedy or "")
        return
    found = filter_records.filter_records({"data": rows, "criteria": query})
    assert [rows.index(row) for row in found["data"]] == places


def test_a_distribution_needs_one_number_and_the_others_three() -> None:
    """What a search finds may be little: ANALYZE of it says what there is, and a chain goes on."""
    (one,) = statistics.analyze({"target": [{"amount": 5}], "analysis_type": "distribution"})["findings"]
    assert (one["min"], one["max"], one["mean"], one["count"]) == (5, 5, 5, 1) and "standard_deviation" not in one
    found = statistics.analyze({"target": [{"amount": 5}, {"amount": 7}]})["findings"]
    assert [(each["type"], each["mean"]) for each in found] == [("distribution", 6)]
    for kind in ("trend", "anomaly", "correlation"):
        with pytest.raises(Refusal, match="Less than 3 numbers"):
            statistics.analyze({"target": [{"amount": 5}, {"amount": 7}], "analysis_type": kind})
    with pytest.raises(Refusal, match="No number"):
        statistics.analyze({"target": [{"amount": "n/a"}], "analysis_type": "distribution"})


MIXED: dict[str, tuple[list[Any], Any, int, list[tuple[str, int]]]] = {
    "text below a number": ([{"a": "60000"}, {"a": 7}], {"a": {"gt": 5}}, 1, [("a", 1)]),
    "a number and the text of one": ([{"a": 5}, {"a": 6}], {"a": "5"}, 0, [("a", 2)]),
    "a number in a list of texts": ([{"a": 5}], {"a": ["5", "6"]}, 0, [("a", 1)]),
    "a member of a member": ([{"a": {"b": "5"}}], {"a.b": {"lte": 5}}, 0, [("a.b", 1)]),
    "a word and a number": ([{"a": "none"}], {"a": 5}, 0, []),
    "two texts": ([{"a": "b"}], {"a": {"gt": "a"}}, 1, []),
    "nothing there": ([{}], {"a": {"gt": 1}}, 0, []),
    "JMESPath": ([{"a": "60000"}, {"a": 7}], "a > `5`", 1, [("a", 1)]),
    "JMESPath the other way round": ([{"a": {"b": "6"}}], "`5` < a.b", 0, [("a.b", 1)]),
    "JMESPath with a text": ([{"a": 7}], "a > '5'", 0, [("a", 1)]),
    "JMESPath of equality": ([{"a": "7"}], "a == `7`", 0, [("a", 1)]),
}


@each_row("records,criteria,count,warned", MIXED.values(), ids=MIXED)
def test_a_comparison_of_a_number_with_a_text_is_in_the_answer(
    records: list[Any], criteria: Any, count: int, warned: list[tuple[str, int]]
) -> None:
    """It never holds, refuses nothing, and the answer names the member."""
    found = filter_records.filter_records({"data": records, "criteria": criteria})
    assert found["count"] == count
    warnings = found.get("warnings", [])
    assert [(each["member"], each["comparisons"]) for each in warnings] == warned
    for each in warnings:
        assert each["member"] in each["message"] and "compared with" in each["message"]


def test_warnings_are_bounded() -> None:
    """As many members as an answer names, and no more of a name than one needs."""
    criteria = {"any": [{"m" * 120 + str(n): {"gt": 1}} for n in range(40)]}
    found = filter_records.filter_records(
        {"data": [{"m" * 120 + str(n): "2" for n in range(40)}], "criteria": criteria}
    )
    assert len(found["warnings"]) == 16


@pytest.fixture(scope="module")
def host() -> tuple[MemoryHost, TestAgent]:
    schema = {"type": "object", "properties": {"amount": {"type": "string"}}}
    collections = [
        {"name": "orders", **OPEN},
        {"name": "texts", **OPEN, "schema": schema},
        {"name": "plain", **OPEN, "schema": {"type": "object", "properties": {"amount": {"type": "number"}}}},
    ]
    made = MemoryHost({"methods": {"standard": "*", "collection": collections}})
    return made, made.agent("clerk")


def test_the_chain_of_the_draft_gives_right_answers(host: tuple[MemoryHost, TestAgent]) -> None:
    """IMPORT of CSV, SEARCH with a comparison, ANALYZE of what was found, REPORT of the findings."""
    made, clerk = host
    rows = "".join(f"po-{n},{amount},01067\n" for n, amount in enumerate((900, 51000, 52000, 53000.5, 990000, 100)))
    steps = [
        {"method": "IMPORT", "parameters": {"target": "orders", "source": f"id,amount,zip\n{rows}", "format": "csv"}},
        {"method": "SEARCH", "parameters": {"query": "amount > `50000`", "scope": "orders"}, "capture": "found"},
        {
            "method": "ANALYZE",
            "parameters": {"target": "=found.results", "analysis_type": "distribution"},
            "capture": "read",
        },
        {
            "method": "REPORT",
            "parameters": {
                "report_type": "weekly",
                "scope": {"rows": "=read.findings"},
                "recipient": clerk.agent_id,
                "format": "json",
            },
        },
    ]
    answer = made.call("CHAIN", "/", {"steps": steps, "context_propagation": True}, caller=clerk)
    assert answer.status == 200, answer.result
    imported, searched, analyzed, report = (step["result"] for step in answer.result["steps"])
    assert imported["columns"] == {"id": "text", "amount": "number", "zip": "text"}
    assert searched["total"] == 4 and "warnings" not in searched
    (finding,) = analyzed["findings"]
    assert (finding["member"], finding["min"], finding["max"]) == ("amount", 51000, 990000)
    assert (report["rows"], report["delivered"]) == (1, 1)


def test_search_and_scan_name_texts_that_were_compared_with_a_number(host: tuple[MemoryHost, TestAgent]) -> None:
    """A collection whose schema keeps text: nothing is found, and the answer says why."""
    made, clerk = host
    given = {"target": "texts", "source": "id,amount\na,60000\n", "format": "csv"}
    assert made.call("IMPORT", "/", given, caller=clerk).result["columns"]["amount"] == "text"
    for query in ({"amount": {"gt": 50000}}, "amount > `50000`"):
        found = made.call("SEARCH", "/", {"query": query, "scope": "texts"}, caller=clerk).result
        assert found["total"] == 0 and found["warnings"][0]["member"] == "amount"
    scan = {"collection": "texts", "filter": {"amount": {"gt": 50000}}}
    page = made.call("SCAN", "/", scan, caller=clerk).result
    assert page["count"] == 0 and page["warnings"][0]["member"] == "amount"


def test_what_a_schema_declares_as_a_number_and_is_none_is_refused(host: tuple[MemoryHost, TestAgent]) -> None:
    """422 names the record, and nothing is entered."""
    made, clerk = host
    answer = made.call("IMPORT", "/", {"target": "plain", "source": "id,amount\na,5\nb,n/a\n"}, caller=clerk)
    assert (answer.status, answer.result["record"]) == (422, 1)
    answer = made.call("IMPORT", "/", {"target": "plain", "source": "id,amount\na,5\nb,\n"}, caller=clerk)
    assert (answer.status, answer.result["created"]) == (200, 2)


ROWS: dict[str, Any] = {
    "no list": {"rows": {}},
    "no objects": {"rows": [1]},
    "too many": {"rows": [{}] * 1_001},
    "with a span": {"rows": [], "from": "2026-01-01T00:00:00Z"},
    "with a collection": {"rows": [], "collection": "orders"},
}


@each_row("scope", ROWS.values(), ids=ROWS)
def test_a_report_takes_rows_and_nothing_else_with_them(host: tuple[MemoryHost, TestAgent], scope: Any) -> None:
    """422 names the parameter."""
    made, clerk = host
    given = {"report_type": "a", "recipient": clerk.agent_id, "scope": scope}
    answer = made.call("REPORT", "/", given, caller=clerk)
    assert (answer.status, answer.result["parameter"]) == (422, "scope")


def test_spaces_around_the_name_of_a_column_do_not_count() -> None:
    """A search for ``amount`` finds the column of "id, amount"."""
    found = filter_records.filter_records({"data": "id, amount\np-1, 61000\n", "criteria": {"amount": {"gt": 50000}}})
    assert found["data"] == [{"id": "p-1", "amount": 61000}]
    with pytest.raises(Refusal, match="does not name each column once"):
        transform.transform({"source": "id, id\n1,2\n", "source_format": "csv", "target_format": "json"})
