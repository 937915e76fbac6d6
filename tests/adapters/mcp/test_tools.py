"""Which definitions are believed, and what they are made of."""

from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock

from agtphost.adapters.mcp.bindings import semantic_block
from agtphost.adapters.mcp.session import own_meta
from agtphost.adapters.mcp.tools import deceptive_character, digest_of, parameter_headers, read_tools, render_headers
from agtphost.adapters.mcp.versions import header_value
from agtphost.config.upstreams import ToolOverride
from agtphost.upstream.log import KEPT_LINES, PASSING_SECRETS, UpstreamLog, escape_text
from tests.rows import each_row

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
TOOL: dict[str, Any] = {
    "name": "t",
    "description": "Does it.",
    "inputSchema": SCHEMA,
    "x-unknown": {"kept": [1]},
}
HIDDEN = [
    0x00, 0x07, 0x1B, 0x7F, 0x85, 0xAD, 0x200B, 0x200D, 0x200E, 0x202E, 0x2066, 0x2028, 0xFEFF, 0xE0041,
    0xE000, 0x3164, 0x2800,
]  # fmt: skip


def read(*definitions: object) -> dict[str, Any]:
    return read_tools(definitions, {}, UpstreamLog(Clock(), "s"))


def test_a_definition_is_kept_whole() -> None:
    """Nothing that a server says of a tool is dropped, known to this host or not."""
    assert read(TOOL)["t"].definition == TOOL


@each_row("point", HIDDEN)
@each_row("place", ["name", "description", "title", "schema", "key"])
def test_invisible_characters_refuse_a_tool(point: int, place: str) -> None:
    """T-MC-90..105: controls, ANSI, bidi, zero-width, tags and fillers are refused wherever they stand."""
    text = f"a{chr(point)}b"
    schemas: dict[str, object] = {
        "schema": {"type": "object", "properties": {"a": {"description": text}}},
        "key": {"type": "object", "properties": {text: {}}},
    }
    poisoned = {**TOOL, "inputSchema": schemas[place]} if place in schemas else {**TOOL, place: text}
    assert read(poisoned) == {}


@each_row("text", ["two\nlines\tand a tab", "naïve façade", "日本語", "emoji \U0001f600", "a\u00a0b"])
def test_honest_text_passes(text: str) -> None:
    """The control: ordinary text of any language is no reason to refuse."""
    assert deceptive_character(text, lines=True) is None
    assert "t" in read({**TOOL, "description": text})


@each_row("name", ["", " ", "a b", "a\nb", "x" * 129, "ａｂｃ", "ﬁle", "a\tb"])
def test_odd_names_are_refused(name: str) -> None:
    """Empty, spaced, overlong and look-alike names."""
    assert read({**TOOL, "name": name}) == {}


def test_two_tools_of_one_name_are_both_refused() -> None:
    """Shadowing inside a server: of two with one name neither is known to be the one that is meant."""
    assert list(read(TOOL, {**TOOL, "description": "Other."}, TOOL, {**TOOL, "name": "u"})) == ["u"]


def test_nonsense_is_refused_one_by_one() -> None:
    """A broken entry does not take the others with it, and too large a definition is one."""
    large = {**TOOL, "name": "large", "description": "x" * 300_000}
    assert list(read(None, 3, {}, {"name": 3}, {"name": "n"}, {"name": "m", "inputSchema": []}, large, TOOL)) == ["t"]


def test_an_unchanged_tool_is_not_compiled_again() -> None:
    """Listing again reuses what is known; a change of any part is noticed."""
    log = UpstreamLog(Clock(), "s")
    first = read_tools([TOOL], {}, log)
    again = read_tools([dict(TOOL)], first, log)
    assert again["t"] is first["t"]
    for key, value in {
        "description": "d",
        "title": "t",
        "inputSchema": {"type": "object"},
        "annotations": {},
    }.items():
        assert digest_of({**TOOL, key: value}) != digest_of(TOOL)


@each_row(
    ("annotations", "impact", "capability", "idempotent", "confidence"),
    [
        (None, "irreversible", "transaction", False, 0.7),
        ({"readOnlyHint": True}, "informational", "retrieval", True, 0.7),
        ({"destructiveHint": False, "openWorldHint": False}, "reversible", "modification", False, 0.9),
        ({"destructiveHint": False, "idempotentHint": True}, "reversible", "modification", True, 0.7),
        ({"readOnlyHint": "yes", "destructiveHint": 0}, "irreversible", "transaction", False, 0.7),
    ],
)
def test_annotations_become_a_semantic_block(
    annotations: object, impact: str, capability: str, idempotent: bool, confidence: float
) -> None:
    """Adapters section 4: hints map to impact and capability; a hint of the wrong type says nothing."""
    block = semantic_block({**TOOL, "title": "T", "annotations": annotations}, None)
    assert block == {
        "intent": "Does it.", "actor": "agent", "outcome": "T", "capability": capability,
        "confidence": confidence, "impact": impact, "is_idempotent": idempotent,
    }  # fmt: skip


def test_the_operators_word_wins() -> None:
    """An override beats every hint."""
    block = semantic_block({**TOOL, "annotations": {"readOnlyHint": True}}, ToolOverride(impact="irreversible"))
    assert block["impact"] == "irreversible"


def test_arguments_are_repeated_as_headers() -> None:
    """
    x-mcp-header: paths, scalars, absent and null values, and the base64 form for what HTTP does not
    carry.
    """
    schema = {
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
            "flag": {"type": "boolean", "x-mcp-header": "Flag"},
        }
    }
    headers = parameter_headers(schema)
    assert dict(render_headers(headers, {"region": "eu", "deep": {"n": 3}, "flag": True})) == {
        "Mcp-Param-Region": "eu", "Mcp-Param-N": "3", "Mcp-Param-Flag": "true",
    }  # fmt: skip
    assert dict(render_headers(headers, {"region": "é\r\nX: y", "deep": 7, "flag": None})) == {
        "Mcp-Param-Region": "=?base64?w6kNClg6IHk=?="
    }
    assert header_value(" padded") == "=?base64?IHBhZGRlZA==?="
    assert header_value("=?base64?eA==?=").startswith("=?base64?PT9")


@each_row(
    "bad",
    [
        {"type": "string", "x-mcp-header": "a b"},
        {"type": "string", "x-mcp-header": 3},
        {"type": "number", "x-mcp-header": "N"},
        {"x-mcp-header": "N"},
    ],
)
def test_a_forbidden_header_annotation_refuses_the_tool(bad: object) -> None:
    """Names that are no tokens and values that have no one text."""
    assert read({**TOOL, "inputSchema": {"type": "object", "properties": {"a": bad}}}) == {}


def test_a_callers_meta_cannot_speak_for_the_host() -> None:
    """
    T-SC-70: protocol keys, the host's own and progress tokens of a caller are dropped, the rest is kept.
    """
    meta = {
        "io.modelcontextprotocol/clientInfo": {},
        "agtp/agent_id": "x",
        "agent_id": "x",
        "agtp.delegation-chain": [],
        "progressToken": 1,
        "traceparent": "t",
    }
    assert own_meta(meta) == {"traceparent": "t"}


def test_stderr_is_escaped_bounded_and_redacted() -> None:
    """
    T-MC, P21: control characters are escaped, long lines cut, lines per second limited, secrets removed.
    """
    log = UpstreamLog(Clock(), "s", ["secret-canary", "tiny"])
    log.stderr(b"\x1b[31mred \xe2\x80\xae secret-canary tiny\nlo")
    log.stderr(b"ng" + b"z" * 5000)
    log.stderr(b"z" * 100_000 + b"\n\xff\n")
    first, second, third = log.lines
    assert first == "\\x1b[31mred \\u202e [redacted] tiny"
    assert (len(second), second.endswith("z [cut]")) == (1024 + 6, True)
    assert third == "\ufffd"
    log.stderr(b"more\n" * 1000)
    assert len(log.lines) == KEPT_LINES
    assert log.suppressed_lines >= 980
    assert escape_text("ok ü") == "ok ü"


def test_the_last_lines_of_stderr_are_kept_although_the_log_has_enough() -> None:
    """A traceback ends with the reason, long after the lines of a second that are logged; tokens stay concealed."""
    log = UpstreamLog(Clock(), "s")
    for number in range(PASSING_SECRETS):
        log.conceal(f"token-{number}")
    log.stderr(b"line\n" * 300 + b"token-0 is refused\nKeyError: 'PORT'")
    assert "KeyError: 'PORT'" not in log.lines
    log.end_stderr()
    log.conceal("another token")
    assert log.lines[-2:] == ("[redacted] is refused", "KeyError: 'PORT'")
    log.end_stderr()
    log.stderr(b"the next process\n")
    assert log.lines[-2:] == ("KeyError: 'PORT'", "the next process")
