"""
The most expensive inputs of standard methods that are known, by method: :data:`COSTLY`.

They are what ``tests/methods/standard/test_costs.py`` begins its search with, and what the attack ``costly-methods``
sends. What a long search finds that costs more is entered here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

BODY = 1_040_000
"""Octets of a parameter, so that the body has less than 1 MiB."""

VALUES = 48_000
"""Values, names and commas that a body may have nearly."""

Given = Mapping[str, Any]


def table(columns: int, rows: int, octets: int, name: int = 3) -> str:
    """CSV of so many octets at the most, with names of so many characters."""
    head = ",".join(f"c{n}".ljust(name, "x") for n in range(columns))
    line = ",".join("1" for _ in range(columns))
    count = min(rows, max(1, (octets - len(head)) // (len(line) + 1)))
    return "\n".join([head, *[line] * count])


def lines(octets: int, **record: Any) -> str:
    """JSON lines."""
    line = json.dumps(record)
    return "\n".join([line] * min(10_000, octets // (len(line) + 1)))


def crossed(literal: int, records: int) -> Given:
    """JMESPath in which each member of a list meets each member of another one."""
    numbers = json.dumps([1] * literal, separators=(",", ":"))
    return {"data": [{"n": [n] * 8} for n in range(records)], "criteria": f"n[*].not_null(`{numbers}`)[*].abs(@)"}


def nested_sums(depth: int, members: int) -> Given:
    """A formula that goes over a list for each member of a list."""
    inner: Any = {
        "op": "sqrt",
        "args": [{"op": "multiply", "args": [{"var": "item"}, {"const": "1.0000000000000000001"}]}],
    }
    for _ in range(depth):
        inner = {"op": "sum", "over": "l", "of": inner}
    return {"expression": inner, "inputs": {"l": list(range(1, members + 1))}}


def records(count: int, members: int) -> list[dict[str, Any]]:
    """Records of numbers."""
    return [{f"m{k}": (n * 7_919 + k * 31) % 9_973 for k in range(members)} for n in range(count)]


def words(count: int, vocabulary: int = 5_000) -> str:
    """A text of so many words."""
    return " ".join(f"word{(n * 7_919) % vocabulary}" for n in range(count))


def deep_schema(depth: int, width: int) -> Any:
    """A schema of alternatives inside of alternatives."""
    inner: Any = {"type": "string", "pattern": "^(a|b|ab)*c$"}
    for _ in range(depth):
        inner = {"anyOf": [{"required": ["gone"]}, *[{"properties": {"in": inner}}] * width]}
    return inner


COSTLY: Mapping[str, Mapping[str, Callable[[], Given]]] = {
    "ANALYZE": {
        "rows of ten numbers": lambda: {"target": records(2_300, 10), "explain": True},
        "lines of ten numbers": lambda: {
            "target": "\n".join(json.dumps(each) for each in records(5_500, 10)),
            "explain": True,
        },
        "one list": lambda: {"target": [n * 7_919 % 9_973 for n in range(9_999)], "sensitivity": 1.0},
        "a table of long names": lambda: {"target": table(20, 9_999, 480_000, 4_000)},
    },
    "CALCULATE": {
        "three sums inside each other": lambda: nested_sums(3, 30),
        "four sums inside each other": lambda: nested_sums(4, 14),
        "powers": lambda: {
            "expression": {
                "op": "sum",
                "over": "l",
                "of": {"op": "power", "args": [{"op": "sqrt", "args": [{"var": "item"}]}, 9]},
            },
            "inputs": {"l": list(range(2, 9_000))},
        },
    },
    "EVALUATE": {
        "values": lambda: {
            "target": {"n": "v59"},
            "criteria": [
                {"name": f"c{n}", "member": "n", "values": {f"v{k}": k / 60 for k in range(60)}} for n in range(100)
            ],
        },
        "conditions": lambda: {
            "target": {"tags": [f"t{n}" for n in range(16_000)]},
            "criteria": [
                {"name": f"c{n}", "meets": {"any": [{"tags": {"contains": f"u{k}"}} for k in range(60)]}}
                for n in range(100)
            ],
        },
    },
    "FILTER": {
        "JMESPath of thirty parts": lambda: {
            "data": lines(500_000, n=1, text="x"),
            "criteria": " || ".join(f"n == `{n + 5}`" for n in range(30)),
        },
        "JMESPath that multiplies": lambda: crossed(200, 5_000),
        "conditions": lambda: {
            "data": lines(500_000, n=-1, text="thing of word and more"),
            "criteria": {
                "any": [{"n": {"gte": n}} for n in range(30)],
                "text": {"matches": "^(thing|item) of.*(word|wood)" + "(and|or)?" * 20},
                "n": {"in": list(range(900))},
            },
        },
        "lists that are compared": lambda: {
            "data": [{"n": [[k] for k in range(8)]} for _ in range(1_000)],
            "criteria": {"n": {"in": [[[k] for k in range(7)] + [[n]] for n in range(900)]}},
        },
        "as YAML": lambda: {"data": lines(900_000, n=1, t="x: y"), "criteria": {"n": 1}, "output_format": "yaml"},
    },
    "GENERATE": {
        "a template": lambda: {
            "output_type": "markdown",
            "source": {"template": "{a}-{b.c}" * 9_000, "values": {"a": "*_", "b": {"c": 5}}},
        },
        "a template of long values": lambda: {
            "output_type": "text",
            "source": {"template": "{a}" * 9_000, "values": {"a": "x" * 800_000}},
        },
        "documentation": lambda: {
            "output_type": "html",
            "source": {
                "openapi": "3.1.0",
                "info": {"title": "t"},
                "components": {"s": {"properties": {f"m{n}": {"example": "e" * 300} for n in range(200)}}},
                "paths": {
                    f"/p{n}": {
                        name: {"responses": {"200": {"content": {"application/json": {"schema": {"$ref": REF}}}}}}
                        for name in ("get", "put", "post", "delete")
                    }
                    for n in range(100)
                },
            },
        },
    },
    "MAP": {
        "two hundred fields": lambda: {
            "source_schema": [f"order_{words(8)}_{n}" for n in range(200)],
            "target_schema": [f"order_{words(8)}_{n}" for n in range(200)],
        },
    },
    "MERGE": {
        "conflicts": lambda: {
            "sources": [records(900, 10), [{**each, "m1": -1} for each in records(900, 10)]],
            "strategy": "union",
            "conflict_resolution": {"key": "m0"},
        },
        "fifty documents": lambda: {"sources": [{f"k{n}": [n, k] for n in range(300)} for k in range(50)]},
        "one record often": lambda: {"sources": [[{"a": 1}] * 4_000, [{"a": 1}] * 4_000], "strategy": "latest"},
    },
    "NORMALIZE": {
        "dates": lambda: {"data": ["the 31st of december 2026"] * 9_999, "type": "date", "locale": "en-GB"},
        "telephone numbers": lambda: {"data": ["+49 30 1234567"] * 9_999, "type": "phone"},
        "amounts": lambda: {"data": ["12,345,678.50 EUR"] * 9_999, "type": "currency", "locale": "en-US"},
        "units": lambda: {"data": [f"{n} km/h^2" for n in range(9_999)], "type": "unit"},
    },
    "RANK": {
        "by a text": lambda: {"items": [words(20) for _ in range(6_000)], "criterion": {"text": words(200)}},
        "by weights": lambda: {
            "items": records(2_300, 10),
            "criterion": {"weights": {f"m{n}": n + 1 for n in range(10)}},
        },
    },
    "TRANSFORM": {
        "a table": lambda: {"source": table(20, 9_999, 489_000), "target_format": "json"},
        "a table of long names": lambda: {"source": table(20, 9_999, 489_000, 4_000), "target_format": "json"},
        "YAML": lambda: {"source": "- a: 1\n  b: [1, 2]\n" * 9_000, "source_format": "yaml", "target_format": "json"},
        "to YAML": lambda: {"source": records(2_300, 10), "target_format": "yaml"},
        "mapped two hundredfold": lambda: {
            "source": lines(900_000, a="x" * 80),
            "target_format": "jsonl",
            "mapping": {f"t{n}": "a" for n in range(200)},
        },
        "to a schema": lambda: {
            "source": table(20, 9_999, 380_000),
            "target_format": {"type": "object", "properties": {f"c{n}x": {"type": "integer"} for n in range(20)}},
        },
    },
    "VALIDATE": {
        "alternatives": lambda: {
            "target": [{"in": {"in": {"in": "abababab" * 4}}} for _ in range(3_000)],
            "schema": {"type": "array", "items": deep_schema(3, 3)},
        },
        "many faults": lambda: {"target": records(2_300, 10), "schema": {"items": {"required": ["gone"]}}},
        "rules": lambda: {
            "target": {"tags": [f"t{n}" for n in range(9_000)]},
            "schema": {
                "rules": [
                    {"require": {"any": [{"tags": {"contains": f"u{k}"}} for k in range(60)]}} for _ in range(100)
                ]
            },
        },
        "a schema": lambda: {
            "target": {"properties": {f"m{n}": deep_schema(1, 2) for n in range(300)}},
            "schema": "json-schema",
        },
        "a document of AGIS": lambda: {"target": {"agis": "1.0", "x": [{"a": 1}] * 9_000}, "schema": "agis-2"},
    },
    "SEARCH": {
        "JMESPath": lambda: {"query": " || ".join(f"n == `{n + 5}`" for n in range(30)), "scope": "goods"},
        "conditions": lambda: {
            "query": {"any": [{"name": {"matches": f"x{n}.*y{n}"}} for n in range(40)]},
            "scope": "goods",
            "sort": ["-n", "name"] * 4,
        },
    },
    "SCAN": {
        "conditions": lambda: {
            "collection": "goods",
            "filter": {"any": [{"name": {"matches": f"x{n}.*y{n}"}} for n in range(40)]},
        },
    },
    "FIND": {
        "words": lambda: {"criteria": words(400)[:3_900], "limit": 100},
        "methods": lambda: {"criteria": {"methods": ["QUERY"] * 40_000}, "limit": 100},
    },
    "IMPORT": {
        "a text of items": lambda: {
            "source": "\n".join(json.dumps({"t": "y" * 1_800, "n": n}) for n in range(500)),
            "target": "goods",
            "format": "jsonl",
        },
    },
    "SIGN": {
        "values": lambda: {"payload": [n / 7 for n in range(13_500)]},
        "more than it takes": lambda: {"payload": [n / 7 for n in range(VALUES - 3_000)]},
    },
    "LOG": {
        "values": lambda: {"event_type": "e", "data": [n / 7 for n in range(13_500)]},
        "more than it takes": lambda: {"event_type": "e", "data": [n / 7 for n in range(VALUES - 3_000)]},
    },
    "QUOTE": {
        "parameters": lambda: {"method": "ECHO", "path": "/text", "parameters": {"text": "x", "rows": [{}] * 40_000}}
    },
    "BATCH": {
        "computations": lambda: {
            "calls": [
                {"method": "FILTER", "path": "/", "parameters": {"data": HUNDRED, "criteria": "abs(n) > `5`"}}
                for _ in range(60)
            ]
        },
    },
    "REPORT": {
        "rows": lambda: {"report_type": "r", "scope": records(2_300, 10), "recipient": "self", "format": "html"},
    },
}
"""By method: its inputs by name."""

HUNDRED = [{"n": n} for n in range(100)]
REF = "#/components/s"


COMPUTED = (
    *("ANALYZE", "CALCULATE", "EVALUATE", "FILTER", "GENERATE", "MAP", "MERGE", "NORMALIZE"),
    *("RANK", "TRANSFORM", "VALIDATE"),
)
"""Methods whose work is a computation."""


def inputs(methods: Sequence[str] = tuple(COSTLY)) -> list[tuple[str, str, Given]]:
    """Method, name and input."""
    return [(method, name, make()) for method in methods for name, make in COSTLY[method].items()]
