"""Which rules fit what a server lists, kind by kind."""

from __future__ import annotations

from agtphost.adapters.mcp.catalogue import explain_unmatched, find_unmatched, list_needed_kinds
from agtphost.config.upstreams import MCPServerSection, ToolOverride
from tests.rows import each_row

RULE = ToolOverride()
LISTED = {
    "tools": ("send",),
    "prompts": ("summarize",),
    "resources": ("note://inbox", "note://a/b"),
    "templates": ("note://box/{number}", "{+any}"),
}
FEWER = {**LISTED, "templates": ("note://box/{number}",)}


def settings(**rules: tuple[str, ...]) -> MCPServerSection:
    given = {kind: dict.fromkeys(names, RULE) for kind, names in rules.items() if kind != "pins"}
    pins = dict.fromkeys(rules.get("pins", ()), "0" * 64)
    return MCPServerSection(name="mail", command=("x",), pins=pins, **given)


@each_row(
    ("rules", "wrong"),
    [
        ({"tools": ("send", "sendd"), "pins": ("sedn", "sendd")}, [("tools", "sedn"), ("tools", "sendd")]),
        ({"prompts": ("summarize", "summarise")}, [("prompts", "summarise")]),
        ({"resources": ("note://inbox", "note://inbx")}, [("resources", "note://inbx")]),
        ({"resources": ("note://a/*", "note://c/*", "note:*", "*")}, [("resources", "note://c/*")]),
        ({"resources": ("note://box/7", "note://box/*", "note://box/7*", "note://box/{number}")}, []),
    ],
)
def test_rules(rules: dict[str, tuple[str, ...]], wrong: list[tuple[str, str]]) -> None:
    """What a template may give fits; a beginning fits what begins with it."""
    assert list(find_unmatched(settings(**rules), FEWER)) == wrong


def test_a_template_that_gives_anything_fits_everything() -> None:
    """Nobody can say that a URI is none of its."""
    assert list(find_unmatched(settings(resources=("file:///x", "file:///*")), LISTED)) == []


def test_what_was_not_listed_decides_nothing() -> None:
    """And is listed where there are rules for it."""
    rules = settings(prompts=("x",), resources=("y",))
    assert list(find_unmatched(rules, {"tools": ()})) == []
    assert list_needed_kinds(rules) == ("prompts", "resources", "templates")
    assert list_needed_kinds(settings(tools=("send",))) == ()


def test_the_sentence_has_what_was_meant() -> None:
    """Of the same kind."""
    assert explain_unmatched("mail", "prompts", "summarise", LISTED) == (
        "the configuration has rules for prompt 'summarise' of mail, and no prompt there has that name "
        "(did you mean 'summarize'?)"
    )
