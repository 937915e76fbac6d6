"""Errors of RE2 and JMESPath are explained: what is wrong in the expression, and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jmespath
import pytest
import re2
from jmespath.exceptions import JMESPathError

from agtphost.contract.declaration import Rules
from agtphost.contract.endpoint_loading import load_endpoints
from agtphost.contract.recipes.expression import Expression, ExpressionError
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.foreign_errors import explain, original_of
from tests.rows import each_row

OPTIONS = re2.Options()
OPTIONS.log_errors = False


@each_row(
    ("pattern", "meaning"),
    [
        ("(a", r"a ( is not closed; close it, or write \( for the character"),
        ("a)", r"a ) closes nothing; remove it, or write \) for the character"),
        ("[a", r"a [ is not closed; close it, or write \[ for the character"),
        ("[z-a]", "the range z-a ends before it begins; write the lower character first"),
        ("[[:foo:]]", "it has no character class [:foo:]; write such as [a-z]"),
        (r"\p{Foo}", r"it has no character class \p{Foo}; write such as [a-z]"),
        ("*a", "* repeats nothing; write before it what repeats, or a backslash for the character"),
        ("a++", "++ repeats a repetition; write one of them, or a group between them"),
        (
            "a{1001}",
            "the repetition {1001} is not possible; write at most 1000 in all groups together, the lower number first",
        ),
        ("a(?=b)", "(?= looks around or back, which takes more than linear time; write it without"),
        ("(?<!a)b", "(?<! looks around or back, which takes more than linear time; write it without"),
        ("(?z)a", "it has no group that begins with (?z; write (?: for a group without a name"),
        ("(?", "a group after (? is not complete; complete it, such as (?:[a-z]+)"),
        ("(?P<n", "the group (?P<n has no name; write such as (?P<name>[a-z]+)"),
        (
            r"(a)\1",
            r"\1 refers back to a group, which takes more than linear time; write the group's expression again",
        ),
        (r"a\Z", r"it has no escape \Z; leave the backslash out, or write two for the character"),
        ("a\\", "a backslash at its end escapes nothing; remove it, or write two for the character"),
        ("\ud800", "it has half of a surrogate pair; remove that character"),
    ],
)
def test_a_regular_expression_that_is_none_is_explained(pattern: str, meaning: str) -> None:
    """Each error of RE2 has a text of ours, and keeps its own as the original."""
    with pytest.raises((re2.error, UnicodeError)) as caught:
        re2.compile(pattern, OPTIONS)
    assert explain(caught.value) == meaning
    assert original_of(caught.value).startswith(("re2._re2.Error: ", "UnicodeEncodeError: "))


@each_row(
    ("text", "meaning"),
    [
        ("a.", "it ends too early; complete it, and close its brackets"),
        ("length(a", "it ends too early; complete it, and close its brackets"),
        ("a > 5", "the number 5 at character 5 is not a value there; write `5` to compare, [5] for a member"),
        ("a b", "'b' at character 3 is not expected there; write an operator or a name before it"),
        ("a = b", "a single = at character 3 compares nothing; write =="),
        ("'abc", "the quotation ' at character 1 is not closed; close it"),
        ("a # b", "'#' at character 3 has no meaning there; put names with such characters into double quotes"),
        ("length(`5`)", "length() takes a text or a list or an object, not a number; give it such a value"),
        ('sum(`["a"]`)', "sum() takes a list of numbers, not one with a text; give it such a value"),
        ("keys(`[]`)", "keys() takes an object, not a list; give it such a value"),
        ("length()", "length() has 0 arguments; give it 1"),
    ],
)
def test_an_expression_that_is_none_is_explained(text: str, meaning: str) -> None:
    """Each error of JMESPath has a text of ours, and keeps its own as the original."""
    with pytest.raises(JMESPathError) as caught:
        jmespath.search(text, {})
    assert explain(caught.value) == meaning
    assert original_of(caught.value).startswith("jmespath.exceptions.")


@each_row(("text", "said"), [("a..b", "at character 3"), ("a[::0]", "steps of 0"), ("abs('x')", "takes a number")])
def test_an_expression_of_a_recipe_says_what_is_wrong(text: str, said: str) -> None:
    """Neither the texts nor the names of foreign classes are shown."""
    with pytest.raises(ExpressionError, match=said) as caught:
        Expression(text).evaluate({"a": [1]})
    assert not any(word in str(caught.value) for word in ("Error", "Parse", "token", "invalid type"))


def test_a_pattern_of_an_endpoint_keeps_the_original(tmp_path: Path) -> None:
    """The problem of the endpoint's file has our text with its place, and RE2's for --json and the log."""
    declared: dict[str, Any] = {
        "method": "QUERY",
        "path": "/things",
        "description": "Query things.",
    }
    lines = [f'{name} = "{value}"' for name, value in declared.items()]
    lines += ["[input_schema]", 'type = "object"', "additionalProperties = false"]
    lines += ["[input_schema.properties.id]", 'type = "string"', 'pattern = "a(?=b)"']
    (tmp_path / "query-things.toml").write_text("\n".join(lines))
    _, problems = load_endpoints(tmp_path, Rules(catalog=Catalog.load()))
    (found,) = [each for each in problems if "regular expression" in each.message]
    assert "matches in linear time: (?= looks around" in found.message
    assert found.line == 9 and found.original == "re2._re2.Error: b'invalid perl operator: (?='"
