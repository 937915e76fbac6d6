"""
Forms and queries of the page with any text in them: in process, each is answered, and never by a failure.

The examples are the same in every run: the profile of the suite derives them from the test itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred

from agtphost.page.actions import ACTIONS
from agtphost.page.entrance import PageSession
from agtphost.page.form_fields import FormRequest, MalformedForm
from agtphost.page.form_requests import perform
from agtphost.page.layout import PageView, page
from agtphost.page.page_visit import PageVisit
from agtphost.page.person_client import PersonClient
from agtphost.page.views import ITEM_VIEWS, VIEWS
from agtphost.testing import MemoryHost
from agtphost.testing.identities import key_of

EXAMPLES = 60

QUERIES = {
    "/inbox": ("show",),
    "/agents": ("name", "more", "range"),
    "/sessions": ("agent_id", "more"),
    "/tools": ("name", "upstream", "state", "range", "more"),
    "/can": ("agent", "assurance", "what", "method", "path", "scope", "input", "in.text", "more"),
    "/config": ("compare",),
}
"""The members of each view's query."""

FIELDS = (
    *("do", "back", "reason", "confirmed", "agent_id", "name", "things", "thing", "days", "kind", "targets", "tool"),
    *("target_id", "proposal_id", "typed", "upstream", "protocol", "sha256", "input", "text.a", "json.a", "content"),
    *("response_id", "synthesis_id", "in_reply_to"),
)
"""The names of fields of all forms."""

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

WORDS = st.sampled_from(
    [
        *("", "yes", "accepted", "rejected", "deferred", "limit", "allow", "lift", "take", "try", "reload", "approve"),
        *("files.*", "files.read_file", "QUERY /x/{y}", "*", "mcp", "questions", "proposals", "7", "-1h", "decided"),
        *(
            "{",
            "[]",
            '{"a": 1}',
            "null",
            "1e999",
            '"\\ud800"',
            "tool files.x",
            "QUERY /text",
            "EXECUTE /",
            "certificate",
        ),
        *(
            "\u202edelete",
            "\x00",
            "\x1b[2J",
            "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
            "\u0627\u0644",
        ),
        *("0" * 64, "x" * 10_000, "esc-1 apr-2 " * 40, "mcp.files.x", "a2a.", "..", "%00", "/tools/../x"),
    ]
)
TEXT = WORDS | st.text(max_size=40)


@pytest.fixture(scope="module")
def host() -> MemoryHost:
    """A server that never answers, an agent, and an administrator; with a page."""
    made = MemoryHost(
        {
            "admin": {"listen": "tcp:1:interface=127.0.0.1", "url": "https://ops.example.com"},
            "audit": {"operators": [key_of("olga").public.fingerprint]},
            "mcp": {"server": [{"name": "files", "command": ["/bin/false"], "cwd": "/"}]},
            "limits": {"requests_per_minute": 600_000},
        }
    )
    made.endpoint("QUERY", "/text", lambda context: {"done": True}, {"text": "string"})
    made.agent("demo", scopes=["mcp:tools:execute"])
    return made


def client(host: MemoryHost) -> tuple[PageSession, PersonClient]:
    session = PageSession(certificate=host.identities.of_key(key_of("olga"), "olga"), csrf="token", last_used=0.0)
    return session, PersonClient(host.dispatcher, session, "192.0.2.1")


def finished(host: MemoryHost, waiting: Any) -> Any:
    found: list[Any] = []
    Deferred.fromCoroutine(waiting).addBoth(found.append)
    for _ in range(20):
        if found:
            break
        host.clock.settle()
        host.clock.advance(1)
    assert found, "it was not answered"
    if hasattr(found[0], "raiseException"):
        found[0].raiseException()
    return found[0]


def require_whole(session: PageSession, view: PageView) -> None:
    """A view is drawn, has no status of a failure, and no character that deceives."""
    octets = page(view, "/", session)
    assert view.status < 500, (view.status, octets[-600:])
    assert not {"\u202e", "\x1b", "\x00"} & set(octets.decode())


@pytest.mark.parametrize("path", QUERIES)
def test_a_view_with_any_query_is_drawn(host: MemoryHost, path: str) -> None:
    """Filters, names, continuations and inputs of any characters and lengths."""
    session, asker = client(host)
    person = finished(host, asker.ask("QUERY", "/page")).result

    @settings(max_examples=EXAMPLES // 2, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.dictionaries(st.sampled_from(QUERIES[path]), TEXT, max_size=5))
    def draw(query: Mapping[str, str]) -> None:
        visit = PageVisit(path=path, rest="", query=query, session=session, ask=asker, person=person)
        require_whole(session, finished(host, VIEWS[path](visit)))

    draw()


@pytest.mark.parametrize("path", ["/agents", "/tools"])
def test_a_view_of_any_item_is_drawn(host: MemoryHost, path: str) -> None:
    """Names that no agent and no tool has are no failure."""
    session, asker = client(host)
    person = finished(host, asker.ask("QUERY", "/page")).result

    @settings(max_examples=EXAMPLES // 2, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(TEXT, TEXT)
    def draw(rest: str, word: str) -> None:
        visit = PageVisit(path=path, rest=rest, query={"range": word}, session=session, ask=asker, person=person)
        require_whole(session, finished(host, ITEM_VIEWS[path](visit)))

    draw()


@pytest.mark.parametrize("action", ACTIONS)
def test_a_form_with_any_fields_is_answered(host: MemoryHost, action: str) -> None:
    """By a message, by a view, or as malformed."""
    session, asker = client(host)

    (demo,) = (each.agent_id for each in host.directory.list_known())
    sound = {**SOUND, "agent_id": demo, "name": "demo"}
    outcomes: set[type] = set()

    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.dictionaries(st.sampled_from(FIELDS), TEXT, max_size=4), st.sampled_from(list(_buttons(action))))
    def submit(fields: dict[str, str], button: str) -> None:
        fields = {**sound, "do": button, **fields}
        try:
            act = ACTIONS[action](fields)
        except MalformedForm as error:
            assert str(error)
            outcomes.add(MalformedForm)
            return
        assert isinstance(act, FormRequest)
        if action == "reload":
            return  # A host in memory has no file to read.
        outcomes.add(FormRequest)
        result = finished(host, perform(act, asker, fields))
        if isinstance(result, PageView):
            require_whole(session, result)
        else:
            assert result

    submit()
    assert action == "reload" or outcomes == {MalformedForm, FormRequest}, "both kinds of forms were among them"


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
