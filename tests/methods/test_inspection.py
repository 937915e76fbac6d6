"""INSPECT: targets, parameters, read modes; what a refusal may say (core v08 section 7.2.4)."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest
from zope.interface.verify import verifyObject

from agtphost.audit.chain import RecordSigner
from agtphost.audit.drafts import HOST_CHAIN, Draft
from agtphost.audit.writer import GroupWriter
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.built_in import IBuiltInHandler
from agtphost.identity import envelope
from agtphost.identity.jws import verify
from agtphost.identity.peer import PeerCertificate
from agtphost.methods.inspection.access import ReadACL
from agtphost.methods.inspection.inspect import Inspection
from agtphost.stores import MemoryStore
from tests.audit.drafting import KEY, KEYS, draft, group_writer, sealed, transition
from tests.identity.issued import BARE, CALLER, DEMO, DESK, REGISTRAR, STRANGER, of_agent, of_key
from tests.memory import body_of
from tests.methods.hosts import MethodHost, reading
from tests.rows import each_row

OPERATOR = of_key(REGISTRAR)
AS_CALLER = of_agent(CALLER.agent_id)
AS_DESK = of_agent(DESK.agent_id, STRANGER)


class Library:
    """A store with three records of desk's chain, two of the host's, and two lifecycle events of desk."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        writer = group_writer(self.store)

        def write(each: Draft) -> str:
            return sealed(writer, each)[0].audit_id

        by_caller = {"caller_id": CALLER.agent_id}
        self.desk = [write(draft(DESK.agent_id, **by_caller)) for _ in range(3)]
        self.host = [write(draft(HOST_CHAIN, **by_caller)) for _ in range(2)]
        suspended = transition(None, "suspended", agent_id=DESK.agent_id)
        back = transition("suspended", "active", "agent-lifecycle-reinstated", DESK.agent_id)
        self.events = []
        for change in (suspended, back):
            event = sealed(writer, change)[0].event
            assert event is not None
            self.events.append(event.audit_id)

    def hosting(self, acl: ReadACL = ReadACL.PUBLIC) -> MethodHost:
        """A host that serves these records; the registrar's key is the operator's."""
        return MethodHost(
            {"audit": {"read_acl": acl.value, "operators": [REGISTRAR.public.fingerprint]}}, records=reading(self.store)
        )


def test_a_damaged_record_has_a_reason_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is neither shown nor reported as missing, and the answer says whose business it is (T-RB-10)."""
    library = Library()
    rows = library.store._rows(DESK.agent_id)
    damaged = rows[1]._replace(signed=b"x" + rows[1].signed[1:])
    monkeypatch.setattr(library.store, "_rows", lambda chain: [damaged if row == rows[1] else row for row in rows])
    status, body = inspect(library.hosting(), target="chain", agent_id=DESK.agent_id)
    assert (status, body["reason"]) == (500, "record-damaged")
    assert "agtp audit verify" in body["remedy"]


@pytest.fixture(scope="module")
def library() -> Library:
    return Library()


def inspect(on: MethodHost, certificate: PeerCertificate | None = None, **parameters: Any) -> tuple[int, Any]:
    """Status and body of one INSPECT."""
    response = on.ask("INSPECT", body=parameters, certificate=certificate)
    return response.status, body_of(response)


def test_an_audit_record_is_read_back_as_signed(library: Library) -> None:
    """AGTP-193: the JWS of an Audit-ID, which is its hash, and what it says."""
    status, body = inspect(library.hosting(), target="audit", audit_id=library.desk[1])
    result = body["result"]
    assert status == 200
    assert sha256(result["jws"].encode()).hexdigest() == library.desk[1] == result["audit_id"]
    assert result["format"] == "jws"
    assert verify(result["jws"], KEYS) == result["payload"]
    assert result["payload"]["previous_audit_id"] == library.desk[0]


def test_the_head_of_a_chain(library: Library) -> None:
    """AGTP-194: the newest Audit-ID of an agent, events included."""
    _, body = inspect(library.hosting(), target="chain_head", agent_id=DESK.agent_id)
    assert body["result"] == {"agent_id": DESK.agent_id, "audit_id": library.events[-1], "seq": 5}


def test_a_chain_is_walked_in_pages(library: Library) -> None:
    """AGTP-204: from the head, ``previous_audit_id`` leads through every record; pages show the same ones."""
    on = library.hosting()
    walked, following = [], inspect(on, target="chain_head", agent_id=DESK.agent_id)[1]["result"]["audit_id"]
    while set(following) != {"0"}:
        walked.append(following)
        result = inspect(on, target="audit", audit_id=following)[1]["result"]
        following = result["payload"]["previous_audit_id"]
    assert walked == [*library.events[::-1], *library.desk[::-1]]

    paged: list[str] = []
    before: dict[str, int] = {}
    while True:
        page = inspect(on, target="chain", agent_id=DESK.agent_id, limit=2, **before)[1]["result"]["records"]
        if not page:
            break
        paged += [record["audit_id"] for record in page]
        before = {"before": page[-1]["seq"]}
    assert paged == walked


@pytest.mark.parametrize(("target", "member"), [("chain", "records"), ("lifecycle", "events")])
def test_a_stream_goes_on_with_its_token(library: Library, target: str, member: str) -> None:
    """AGTP-052: the parts of a chain and of a lifecycle stream, each by the token of the one before, are the whole."""
    on = library.hosting()
    whole = inspect(on, target=target, agent_id=DESK.agent_id)[1]["result"][member]
    for limit in (1, 2, len(whole)):
        found: list[Any] = []
        headers: dict[str, str] = {}
        while True:
            asked = {"target": target, "agent_id": DESK.agent_id, "limit": limit}
            answer = on.ask("INSPECT", body=asked, headers=headers)
            found += body_of(answer)["result"][member]
            token = answer.headers.get("continuation-token")
            if token is None:
                break
            headers = {"Continuation-Token": token}
        assert found == whole
    asked = {"target": target, "agent_id": DESK.agent_id, "limit": 1}
    token = on.ask("INSPECT", body=asked).headers.get("continuation-token") or ""
    other = on.ask("INSPECT", body={**asked, "agent_id": BARE.agent_id}, headers={"Continuation-Token": token})
    assert (other.status, body_of(other)["reason"]) == (422, "continuation-token-invalid")


@pytest.mark.parametrize(
    ("asked", "unproven", "proven"), [({}, 50, 100), ({"limit": 500}, 50, 120), ({"limit": 7}, 7, 7)]
)
def test_callers_without_a_certificate_get_short_pages(asked: dict[str, int], unproven: int, proven: int) -> None:
    """Fifty records at the most where others get what they ask for, and a token that leads on."""
    library = Library()
    writer = group_writer(library.store)
    for _ in range(115):
        sealed(writer, draft(DESK.agent_id, caller_id=CALLER.agent_id))
    on = library.hosting()
    body = {"target": "chain", "agent_id": DESK.agent_id, **asked}
    for certificate, count in ((None, unproven), (AS_CALLER, proven), (of_key(STRANGER), proven)):
        answer = on.ask("INSPECT", body=body, certificate=certificate)
        assert len(body_of(answer)["result"]["records"]) == count
        assert (answer.headers.get("continuation-token") is None) == (count == 120)


def test_the_hosts_own_chain(library: Library) -> None:
    """``chain=host`` names the chain of refusals and server-level answers."""
    _, body = inspect(library.hosting(), target="chain", chain="host")
    newest = [record["audit_id"] for record in body["result"]["records"]]
    assert newest[-2:] == library.host[::-1]


def test_lifecycle_events_come_newest_first(library: Library) -> None:
    """AGTP-195: newest first, with ``format``, the signed octets, and at most ``limit``."""
    _, body = inspect(library.hosting(), target="lifecycle", agent_id=DESK.agent_id)
    assert [event["audit_id"] for event in body["result"]["events"]] == library.events[::-1]
    assert {event["format"] for event in body["result"]["events"]} == {"jws"}
    assert body["result"]["event_count"] == 2
    _, body = inspect(library.hosting(), target="lifecycle", agent_id=DESK.agent_id, limit=1)
    assert [event["audit_id"] for event in body["result"]["events"]] == library.events[-1:]
    _, body = inspect(library.hosting(), target="lifecycle", agent_id=CALLER.agent_id)
    assert body["result"]["events"] == []


def test_each_lifecycle_event_is_shown_in_its_own_envelope() -> None:
    """AGTP-195: with its ``format``, and the octets that were signed under that name."""
    library = Library()
    writer = GroupWriter(library.store, RecordSigner(KEY, envelope.COSE), server_id="agtp.test")
    writer.load()
    made = sealed(writer, transition("active", "suspended", agent_id=DESK.agent_id))[0].event
    assert made is not None
    _, body = inspect(library.hosting(), target="lifecycle", agent_id=DESK.agent_id)
    events = body["result"]["events"]
    assert [event["format"] for event in events] == ["cose", "jws", "jws"]
    stored = library.store.reader().lifecycle(DESK.agent_id, 3)
    for event, record in zip(events, stored, strict=True):
        form = event["format"]
        assert (form, event["audit_id"]) == (record.format, record.audit_id)
        assert envelope.from_text(form, event[form]) == record.signed
        assert envelope.verify(form, record.signed, KEYS) == event["payload"]
        assert not {"cose", "jws"} - {form} & event.keys()


@pytest.mark.parametrize(
    "parameters",
    [
        {"target": "audit", "audit_id": "e" * 64},
        {"target": "chain_head", "agent_id": "e" * 64},
        {"target": "chain_head", "agent_id": CALLER.agent_id},
    ],
)
def test_what_is_missing_is_404(library: Library, parameters: dict[str, str]) -> None:
    """AGTP-198: a record or chain head that does not exist."""
    status, body = inspect(library.hosting(), **parameters)
    assert (status, body["reason"]) == (404, "record-not-found")


@each_row(
    ("parameters", "reason", "named"),
    [
        ({}, "missing-parameter", "target"),
        ({"target": "contracts"}, "invalid-parameter", "target"),
        ({"target": ["audit"]}, "invalid-parameter", "target"),
        ({"target": "audit"}, "missing-parameter", "audit_id"),
        ({"target": "audit", "audit_id": "E" * 64}, "invalid-parameter", "audit_id"),
        ({"target": "audit", "audit_id": "e" * 63}, "invalid-parameter", "audit_id"),
        ({"target": "audit", "audit_id": "٠" * 64}, "invalid-parameter", "audit_id"),
        ({"target": "audit", "audit_id": 7}, "invalid-parameter", "audit_id"),
        ({"target": "chain_head"}, "missing-parameter", "agent_id"),
        ({"target": "chain_head", "agent_id": "desk"}, "invalid-parameter", "agent_id"),
        ({"target": "chain"}, "missing-parameter", "agent_id"),
        ({"target": "lifecycle"}, "missing-parameter", "agent_id"),
        ({"target": "lifecycle", "agent_id": DESK.agent_id, "limit": 0}, "invalid-parameter", "limit"),
        ({"target": "lifecycle", "agent_id": DESK.agent_id, "limit": True}, "invalid-parameter", "limit"),
        ({"target": "lifecycle", "agent_id": DESK.agent_id, "limit": "9"}, "invalid-parameter", "limit"),
        ({"target": "chain", "agent_id": DESK.agent_id, "before": -1}, "invalid-parameter", "before"),
    ],
)
def test_bad_parameters_are_422(library: Library, parameters: dict[str, Any], reason: str, named: str) -> None:
    """AGTP-192, AGTP-199: a missing or malformed parameter is refused and named."""
    status, body = inspect(library.hosting(), **parameters)
    assert (status, body["reason"], body["parameter"]) == (422, reason, named)


READS: dict[str, dict[str, Any]] = {
    "audit of desk by caller": {"target": "audit"},
    "chain_head": {"target": "chain_head", "agent_id": DESK.agent_id},
    "chain": {"target": "chain", "agent_id": DESK.agent_id},
    "lifecycle": {"target": "lifecycle", "agent_id": DESK.agent_id},
    "host chain": {"target": "chain", "chain": "host"},
    "host head": {"target": "chain_head", "chain": "host"},
}

WHO: dict[str, tuple[PeerCertificate | None, dict[str, str]]] = {
    "nobody": (None, {}),
    "header": (None, {"Agent-ID": DESK.agent_id}),
    "desk": (AS_DESK, {}),
    "caller": (AS_CALLER, {}),
    "bare": (of_agent(BARE.agent_id, DEMO), {}),
    "operator": (OPERATOR, {}),
    "key of no agent": (of_key(STRANGER), {}),
}

EXPECTED = {
    ("agent_only", "nobody"): [401] * 6,
    ("agent_only", "header"): [401] * 6,
    ("agent_only", "desk"): [200, 200, 200, 200, 403, 403],
    ("agent_only", "caller"): [200, 403, 403, 403, 403, 403],
    # Without a Genesis its certificate proves nothing: the caller is known by the header's word alone.
    ("agent_only", "bare"): [401] * 6,
    ("agent_only", "operator"): [200] * 6,
    ("agent_only", "key of no agent"): [401] * 6,
    ("operator_only", "nobody"): [401] * 6,
    ("operator_only", "header"): [401] * 6,
    ("operator_only", "desk"): [403] * 6,
    ("operator_only", "caller"): [403] * 6,
    ("operator_only", "bare"): [403] * 6,
    ("operator_only", "operator"): [200] * 6,
    ("operator_only", "key of no agent"): [403] * 6,
}


@each_row("acl", ReadACL, ids=lambda acl: acl.value)
@each_row("who", WHO)
def test_every_read_mode_for_every_caller(library: Library, acl: ReadACL, who: str) -> None:
    """AGTP-200 to 203: the three modes, every target, every kind of caller; refusals leak no identifier."""
    certificate, headers = WHO[who]
    on = library.hosting(acl)
    wanted = EXPECTED.get((acl.value, who), [200] * 6)
    for (name, parameters), status in zip(READS.items(), wanted, strict=True):
        sent = {"audit_id": library.desk[0], **parameters} if name.startswith("audit") else parameters
        response = on.ask("INSPECT", body=sent, certificate=certificate, headers=headers)
        assert response.status == status, (name, body_of(response))
        if status == 200:
            continue
        body = body_of(response)
        assert body["read_acl"] == acl.value
        assert body["reason"] == ("acl-anonymous-blocked" if status == 401 else "acl-not-permitted")
        text = response.body.decode()
        for secret in (REGISTRAR.public.fingerprint, DESK.agent_id, CALLER.agent_id, BARE.agent_id):
            assert secret not in text, name


@pytest.mark.parametrize("acl", [ReadACL.AGENT_ONLY, ReadACL.OPERATOR_ONLY], ids=lambda acl: acl.value)
def test_refusals_do_not_tell_which_records_exist(library: Library, acl: ReadACL) -> None:
    """AGTP-203: who is not authenticated gets the same answer for a record that exists and one that does not."""
    on = library.hosting(acl)
    answers = []
    for audit_id in (library.desk[0], "e" * 64):
        status, body = inspect(on, target="audit", audit_id=audit_id)
        answers.append((status, body))
    assert answers[0] == answers[1]
    assert answers[0][0] == 401


def test_agent_only_shows_no_record_of_another_agent(library: Library) -> None:
    """AGTP-203: the record of another agent's call is 403, and the answer does not repeat its Audit-ID."""
    on = library.hosting(ReadACL.AGENT_ONLY)
    writer = group_writer(library.store)
    others = sealed(writer, draft(BARE.agent_id, caller_id=BARE.agent_id))[0].audit_id
    existing = inspect(on, AS_CALLER, target="audit", audit_id=others)
    assert existing[0] == 403
    assert others not in str(existing[1])


def test_the_read_mode_is_apart_from_lifecycle_authorization(library: Library) -> None:
    """AGTP-250: records can be public while only issuers write."""
    on = library.hosting(ReadACL.PUBLIC)
    assert inspect(on, target="lifecycle", agent_id=DESK.agent_id)[0] == 200
    assert on.ask("DEACTIVATE", body={"agent_id": DESK.agent_id}).status == 401


def test_the_handler_is_one(library: Library) -> None:
    """The handler keeps to its interface."""
    assert verifyObject(IBuiltInHandler, Inspection(reading(library.store), ReadACL.PUBLIC, Authorization()))


def test_several_questions_have_an_answer_each(library: Library) -> None:
    """Each is decided as if it came alone: what is refused, unknown or not the caller's is so in its own answer."""
    questions: list[Any] = [
        {"target": "chain_head", "agent_id": DESK.agent_id},
        {"target": "chain", "agent_id": DESK.agent_id, "limit": 1},
        {"target": "nothing"},
        {"target": "audit", "audit_id": "x"},
        {"target": "records"},
    ]
    host = library.hosting()
    status, body = inspect(host, target="several", questions=questions)
    assert status == 200
    head, chain, unknown, malformed, records = body["result"]["answers"]
    assert head["status"] == chain["status"] == 200 and head["result"]["audit_id"] == library.events[-1]
    assert unknown["status"] == malformed["status"] == 422 and "several" in unknown["remedy"]
    assert (records["status"], bool(records["reason"])) == (403, True)
    following = {**questions[1], "continuation_token": chain["continuation_token"]}
    _, body = inspect(host, target="several", questions=[following])
    (second,) = body["result"]["answers"]
    assert second["result"]["records"][0]["seq"] == chain["result"]["records"][0]["seq"] - 1


@each_row(
    "questions",
    [
        (None,),
        ([],),
        ("vitals",),
        ([{"target": "chain_head"}] * 17,),
        (["chain_head"],),
        ([{"target": "several", "questions": []}],),
        ([{"target": "feed"}],),
        ([{"target": "backup"}],),
    ],
)
def test_questions_that_cannot_be_asked_together_are_refused(library: Library, questions: Any) -> None:
    """As a whole, with the parameter that is wrong."""
    status, body = inspect(library.hosting(), target="several", questions=questions)
    assert status == 422 and "questions" in str(body), body
