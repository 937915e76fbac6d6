"""
Forms of the page, and views of items, with any text in them: each is answered, and never by a failure.

The examples are the same in every run of the suite: its profile derives them from the test itself. ``--programmes``
draws twenty times as many.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agtphost.page.actions import ACTIONS
from tests.page.page_in_memory import PageInMemory
from tests.page.test_filters_fuzz import HOSTILE, faults_of
from tests.programmes import length

pytestmark = pytest.mark.programme

SOUND = {
    "back": "/",
    "confirmed": "yes",
    "things": "files.*",
    "thing": "files.*",
    "kind": "questions",
    "targets": "esc-1 esc-2",
    "tool": "files.x",
    "target_id": "esc-1",
    "proposal_id": "p",
    "protocol": "mcp",
    "upstream": "files",
    "sha256": "0" * 64,
    "content": "text",
    "response_id": "r",
    "synthesis_id": "s",
    "in_reply_to": "esc-1",
    "reason": "a test",
}
"""Fields of every form that are as the page makes them; some are replaced by others."""

FIELDS = (*SOUND, "do", "agent_id", "name", "days", "typed", "input", "text.a", "json.a", "json.")

WORDS = st.sampled_from(
    [
        *("", "yes", "7", "-1h", "decided", "expired", "none", "{", "[]", '{"a": 1}', "null", "1e999", '"\\ud800"'),
        *("QUERY /x/{y}", "*", "mcp", "proposals", "tool files.x", "QUERY /text", "EXECUTE /", "0" * 64, "x" * 10_000),
        *("esc-1 apr-2 " * 40, "mcp.files.x", "a2a.", "..", "%00", "/tools/../x", "//evil.test", *HOSTILE),
    ]
)
TEXT = WORDS | st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
EXAMPLES = settings(max_examples=length(30, 400), suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def page() -> PageInMemory:
    """A server that never answers, and two agents, of which one is looked at only."""
    made = PageInMemory(
        {
            "mcp": {"server": [{"name": "files", "command": ["/bin/false"], "cwd": "/"}]},
            "limits": {"requests_per_minute": 600_000},
        }
    )
    made.host.endpoint("QUERY", "/text", lambda context: {"done": True}, {"text": "string"})
    made.host.agent("looked-at", scopes=["mcp:tools:execute"])
    made.host.agent("demo", scopes=["mcp:tools:execute"])
    made.open()
    return made


def agent_id(page: PageInMemory, name: str) -> str:
    return next(each.agent_id for each in page.host.directory.list_known() if each.name == name)


@pytest.mark.parametrize("path", ["/inbox", "/agents", "/agents/{agent}", "/tools", "/tools/mcp.files.x", "/can"])
def test_a_view_with_any_query_is_drawn(page: PageInMemory, path: str) -> None:
    """Filters, ranges and choices of any characters and lengths."""
    path = path.format(agent=agent_id(page, "looked-at"))

    @EXAMPLES
    @given(st.dictionaries(st.sampled_from(["show", "range", "what", "agent", "more", "compare"]), TEXT, max_size=4))
    def draw(query: dict[str, str]) -> None:
        wrong = list(faults_of(*page.get(path, query)))
        assert not wrong, (path, query, wrong)

    draw()


@pytest.mark.parametrize("home", ["/agents", "/tools"])
def test_a_view_of_any_item_is_drawn(page: PageInMemory, home: str) -> None:
    """A name that no agent and no tool has is no failure."""

    @EXAMPLES
    @given(TEXT)
    def draw(name: str) -> None:
        wrong = list(faults_of(*page.get(f"{home}/{quote(name or 'x', safe='')}")))
        assert not wrong, (name, wrong)

    draw()


# A host in memory has no file that could be read again.
@pytest.mark.parametrize("action", [each for each in ACTIONS if each != "reload"])
def test_a_form_with_any_fields_is_answered(page: PageInMemory, action: str) -> None:
    """By a redirect within the page, by a view, or as malformed."""
    sound = {**SOUND, "agent_id": agent_id(page, "demo"), "name": "demo"}
    statuses: set[int] = set()

    @EXAMPLES
    @given(st.dictionaries(st.sampled_from(FIELDS), TEXT, max_size=4), st.sampled_from(list(_buttons(action))))
    def submit(fields: dict[str, str], button: str) -> None:
        status, body = page.post(f"/do/{action}", {**sound, "do": button, **fields})
        statuses.add(status)
        if status == 303:
            assert body.startswith("/") and not body.startswith("//"), body
            return
        wrong = list(faults_of(status, body))
        assert not wrong, (fields, wrong)

    submit()
    assert 400 in statuses and statuses - {400}, "forms that are malformed, and others, were among them"


def _buttons(action: str) -> Iterator[str]:
    yield from {
        "lift-limits": ["lift"],
        "take-back": ["take"],
        "try-tool": ["try"],
        "decide-all": ["accepted", "rejected"],
        "decide": ["accepted", "deferred"],
        "decide-proposal": ["accepted", "deferred"],
        "lifecycle": ["deactivate", "deprecate"],
        "end-call": ["end"],
        "revoke-contract": ["revoke"],
        "approve-definition": ["approve"],
    }.get(action, [action])
