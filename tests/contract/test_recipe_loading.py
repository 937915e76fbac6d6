"""Recipes from TOML: what is read, and what is said of what is wrong, with its line."""

from __future__ import annotations

from pathlib import Path

from agtphost.contract.recipes.recipe_loading import read_recipes
from tests.contract.recipes import RULES, read, recipe_text, sound
from tests.rows import each_row

FULL = """\
[[recipe]]
name = "trip"
version = "2"
description = "Looks up and books."
output = { title = "=book.title", all = "=[one, two]" }

[[recipe.step]]
method = "QUERY"
path = "/library/{isbn}"
parameters = { isbn = "=input.isbn" }
capture = "book"
retries = 2
timeout = 1.5

[[recipe.step]]
[[recipe.step.parallel]]
method = "QUERY"
path = "/one"
capture = "one"
when = "book.year > `1900`"

[[recipe.step.parallel]]
method = "QUERY"
path = "/two"
input = "=input"
capture = "two"
on_error = "continue"

[recipe.endpoint]
method = "PLAN"
path = "/trip"
description = "Plans a trip."
[recipe.endpoint.semantic]
intent = "Plan."
actor = "agent"
outcome = "Planned."
capability = "discovery"
confidence = 0.5
impact = "informational"
is_idempotent = true
[recipe.endpoint.input_schema]
type = "object"
additionalProperties = false
[recipe.endpoint.output_schema]
type = "object"
"""


def test_everything_a_recipe_can_say() -> None:
    """Stages, parallel steps, conditions, captures, retries and the endpoint for synthesis."""
    (recipe,) = sound(FULL)
    assert recipe.identifier == "trip@2"
    assert [[step.number for step in stage] for stage in recipe.stages] == [[1], [2, 3]]
    first, one, two = recipe.steps
    assert (first.retries, first.timeout, first.capture, first.line) == (2, 1.5, "book", 7)
    assert one.when is not None and one.when.names == {"book"}
    assert two.proceed and not one.proceed
    assert recipe.endpoint is not None and recipe.endpoint.errors == ("composition_failed",)
    assert recipe.lineage["recipe_version"] == "2"


WRONG = [
    ("a name too many", FULL + "\n[other]\n", "other is unknown", 47),
    ("unknown member", FULL.replace("retries = 2", "retrys = 2"), "retrys is unknown", 12),
    ("no version", FULL.replace('version = "2"\n', ""), "version is missing", 1),
    ("a name with spaces", FULL.replace('"trip"', '"a trip"'), "is not a name", 2),
    ("unknown method", FULL.replace('method = "PLAN"', 'method = "FROB"'), "FROB' is not in catalog", 30),
    (
        "lifecycle",
        FULL.replace('method = "QUERY"\npath = "/one"', 'method = "REVOKE"\npath = "/one"'),
        "REVOKE cannot be a step",
        17,
    ),
    ("method in the path", FULL.replace("/two", "/query/two"), "method name QUERY", 24),
    ("no value for a parameter", FULL.replace('{ isbn = "=input.isbn" }', "{}"), "'isbn' has no value", 10),
    ("a parameter too many", FULL.replace('{ isbn = "=', '{ nsbi = "x", isbn = "='), "no parameter 'nsbi'", 10),
    ("unknown capture", FULL.replace("=book.title", "=bok.title"), "'bok', which no earlier step captures", 5),
    ("capture of the same stage", FULL.replace('input = "=input"', 'input = "=one"'), "'one', which no earlier", 25),
    ("capture twice", FULL.replace('capture = "two"', 'capture = "book"'), "'book' is taken", 26),
    ("capture named input", FULL.replace('capture = "two"', 'capture = "input"'), "'input' is taken", 26),
    ("input is a constant", FULL.replace('input = "=input"', 'input = "input"'), "must be a table or", 25),
    ("expression", FULL.replace("=input.isbn", "=input..isbn"), "not JMESPath", 10),
    ("when", FULL.replace('when = "book.year > `1900`"', 'when = "book..year"'), "not JMESPath", 20),
    ("timeout", FULL.replace("timeout = 1.5", "timeout = 0"), "timeout must be a number of seconds", 13),
    ("retries", FULL.replace("retries = 2", "retries = 99"), "retries must be a number from 0 to 5", 12),
    ("on_error", FULL.replace('"continue"', '"ignore"'), 'must be "fail" or "continue"', 27),
    ("no TOML", "[[recipe]\n", "not TOML", 1),
    ("twice", FULL + FULL, "trip@2 is declared twice", 47),
    ("too many steps", recipe_text("many", *["QUERY /a"] * 33), "more than 32 steps", 6),
    ("semantic", FULL.replace('impact = "informational"', 'impact = "none"'), "impact is not one of", 39),
    ("remote schema", FULL + '"$ref" = "https://example.com/x"\n', "output_schema", 45),
    (
        "quotes inside a text",
        FULL.replace('name = "trip"', 'name = \'a """ trip\'').replace("= 1.5", "= 0"),
        "timeout",
        13,
    ),
    ("a quoted table with brackets", FULL + "[recipe.endpoint.'a[0]']\n", "a[0] is unknown", 47),
    ("no steps", '[[recipe]]\nname = "a"\nversion = "1"\ndescription = "b"\nstep = 7\n', "must be a list", 5),
    ("inline steps elsewhere", 'recipe = "x"\n', "recipe must be a list", 1),
]


@each_row(("text", "said", "line"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_what_is_wrong_is_said_with_its_line(text: str, said: str, line: int) -> None:
    """One mistake, one problem with the right line (unknown things of a step are refused at start)."""
    _, problems = read(text)
    match = [problem for problem in problems if said in problem.message]
    assert match, [str(problem) for problem in problems]
    assert match[0].file == "recipes.toml"
    assert abs(match[0].line - line) <= 1, str(match[0])


def test_a_misspelt_step_is_the_only_problem() -> None:
    """It is meant as one although there are others, and what it captures is not missed."""
    [problem] = read(FULL.replace("[[recipe.step]]", "[[recipe.sep]]", 1))[1]
    assert problem.message.endswith("sep is unknown") and problem.hint == "did you mean 'step'?"


def test_the_sound_document_has_no_problem() -> None:
    """The control: every case above differs from this one in what it is about alone."""
    assert read(FULL)[1] == []


def test_versions_stand_beside_each_other() -> None:
    """A new version does not replace the old one (AGTP-API section 10.5)."""
    recipes = sound(recipe_text("a", "QUERY /x", version="1"), recipe_text("a", "QUERY /y", version="2"))
    assert [recipe.identifier for recipe in recipes] == ["a@1", "a@2"]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """Missing, oversized and no UTF-8: one problem each."""
    missing, large, latin = tmp_path / "missing", tmp_path / "large", tmp_path / "latin"
    large.write_bytes(b"#" * (1 << 20) + b"\n")
    latin.write_bytes(b"\n# caf\xe9\n")
    said = [read_recipes(file, str(file), RULES)[1][0] for file in (missing, large, latin)]
    assert "cannot be read" in said[0].message and "octets" in said[1].message
    assert "UTF-8" in said[2].message and said[2].line == 2
