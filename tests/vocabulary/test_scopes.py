"""Authority-Scope grammar and covering: T-SC-1 to T-SC-40, AGTP-030 to AGTP-035."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agtphost.vocabulary import scopes
from tests.rows import each_row


@each_row(
    "value",
    ["nonsense", "A:B c", "a:B", "a:", ":a", "a::b", "a:b,", ",a:b", "a:b c:d", "a:b;c:d", "a:b,,c:d", "ä:b"]
    + ["a:b\n", "a.b:c", "a:**", "a:b*", "*", "a:b,A:b", ",".join(["a:b"] * 300)],
)
def test_malformed_claims_are_refused(value: str) -> None:
    """What is not a comma-separated list of lower-case tokens of two or more segments is an error."""
    with pytest.raises(scopes.ScopeError):
        scopes.parse(value)


@each_row(
    ("value", "tokens"),
    [
        ("a:x,b:y", {"a:x", "b:y"}),
        ("a:x, b:y", {"a:x", "b:y"}),
        ("a:x \t,\tb:y", {"a:x", "b:y"}),
        ("mcp:tools:execute", {"mcp:tools:execute"}),
        ("a:b,a:b", {"a:b"}),
        ("", set()),
        ("  ", set()),
        ("*:*", {"*:*"}),
        ("booking:*", {"booking:*"}),
    ],
)
def test_claims_are_read(value: str, tokens: set[str]) -> None:
    """White space around commas means nothing; an empty header claims nothing."""
    assert scopes.parse(value) == tokens


@each_row(
    ("grant", "wanted", "covered"),
    [
        ("booking:*", "booking:room", True),
        ("booking:*", "booking:room:create", True),
        ("booking:room", "booking:room:create", False),
        ("booking:room:create", "booking:room", False),
        ("*:query", "documents:query", True),
        ("*:query", "documents:write", False),
        ("*:*", "anything:at:all", True),
        ("pay:send", "payments:send", False),
        ("payments:*", "pay:send", False),
        ("mcp:*:read", "mcp:files:read", True),
        ("mcp:*:read", "mcp:files:write", False),
        ("mcp:*:read", "mcp:files:read:all", False),
        ("booking:room", "booking:*", False),
        ("booking:*", "booking:*", True),
        ("*:*", "rcns:negotiate", False),
        ("*:negotiate", "rcns:negotiate", False),
        ("rcns:*", "rcns:negotiate", True),
        ("inspect:all", "inspect:all", True),
        ("*:*", "inspect:all", False),
        ("*:all", "inspect:all", False),
    ],
)
def test_covering(grant: str, wanted: str, covered: bool) -> None:
    """Wildcards widen within their place; the two explicit grants are never implied by one."""
    assert scopes.covers({grant}, wanted) is covered


TOKENS = st.from_regex(r"(?:[a-c]|\*)(?::(?:[a-c]|\*)){1,2}", fullmatch=True)


@given(TOKENS, TOKENS, TOKENS)
def test_covering_is_transitive(first: str, second: str, third: str) -> None:
    """If a covers b and b covers c then a covers c: narrowing twice never widens."""
    if scopes.covers({first}, second) and scopes.covers({second}, third):
        assert scopes.covers({first}, third)


@given(st.frozensets(TOKENS, max_size=6))
def test_rendered_lists_are_read_back(tokens: frozenset[str]) -> None:
    """The header form of a set is read as that set."""
    assert scopes.parse(scopes.render(tokens)) == tokens


def test_missing_names_what_is_missing() -> None:
    """Only uncovered tokens are named, in the order asked."""
    assert scopes.missing({"a:*"}, ["b:x", "a:x", "c:x"]) == ("b:x", "c:x")
