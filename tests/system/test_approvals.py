"""Calls that a person approves, at a real host that is killed at the worst moments (core v08 section 7.2.11)."""

from __future__ import annotations

import json
import random
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agtphost.identity.keys import SigningKey
from agtphost.identity.provisioning import provision_development
from tests.programmes import length
from tests.system.hosting import Host, agtp, running, until
from tests.system.raw_link import Answer, RawLink, Truncated, client_context, request
from tests.system.trail import database, marks, stored, traced, verified

pytestmark = pytest.mark.slow

KILLS = length(3, 40)
SEED = 20_261_122
CALLS = 6
"""Approved calls that are made at once in each life of the host."""

SETTINGS = """
[audit]
operators = ["{operator}"]

[approvals]
irreversible = true
"""


def deployment(folder: Path, *, more: str = "") -> Path:
    """The sample with ``BOOK /stay``, where a person approves each call of what is irreversible."""
    config = traced(folder)
    state = config.parent / "state"
    provision_development(state, server_id="localhost", hosted=[config.parent / "agents" / "librarian.agent.json"])
    operator = SigningKey.load(state / "registrar.key").public.fingerprint
    config.write_text(config.read_text() + SETTINGS.format(operator=operator) + more)
    return config


def operators_context(host: Host) -> ssl.SSLContext:
    """What shows the operator's certificate."""
    context = client_context(host, identified=False)
    context.load_cert_chain(host.state / "registrar.pem", host.state / "registrar.key")
    return context


@contextmanager
def operator(host: Host) -> Iterator[RawLink]:
    with RawLink(host, context=operators_context(host)) as link:
        yield link


def stay(link: RawLink, mark: str, **more: Any) -> Answer:
    """A call that leaves a mark outside of the host, each time its handler runs."""
    return link.ask("BOOK", "/stay", {"mark": mark, **more})


def held(answer: Answer) -> str:
    """The approval that a call waits for."""
    assert (answer.status, answer.reason) == (202, "approval-required"), answer.body
    return str(answer.json()["approval_id"])


def approved(host: Host, link: RawLink, mark: str, **more: Any) -> str:
    """A call that was asked for, and approved."""
    approval_id = held(stay(link, mark, **more))
    with operator(host) as person:
        answer = person.ask("CONFIRM", "/", {"target_id": approval_id, "status": "accepted"})
        assert answer.status == 200, answer.body
    return approval_id


def kept(host: Host, approval_id: str) -> dict[str, Any]:
    """The approval, as the operator sees it."""
    with operator(host) as person:
        answer = person.ask("QUERY", "/approvals", {"id": approval_id})
        (found,) = answer.json()["result"]["approvals"]
        return dict(found)


def test_a_kill_between_the_decision_and_the_call_loses_nothing(tmp_path: Path) -> None:
    """Asked, killed, approved, killed, called: it runs once; one more call waits for one more approval."""
    config = deployment(tmp_path)
    with running(config) as host:
        with RawLink(host) as link:
            first = held(stay(link, "a"))
        host.kill()
    with running(config) as host:
        with RawLink(host) as link:
            assert approved(host, link, "a") == first
        host.kill()
    with running(config) as host, RawLink(host) as link:
        assert kept(host, first)["state"] == "approved"
        done = stay(link, "a")
        assert done.status == 200, done.body
        assert held(stay(link, "a")) != first
        assert marks(config) == {"a": 1}
        shown = kept(host, first)
        assert (shown["state"], shown["executed_audit_id"]) == ("used", done.audit_id)
        assert not verified(host, stored(database(host))).faults


def test_a_kill_in_the_call_uses_the_approval_up(tmp_path: Path) -> None:
    """What it did by then nobody can tell: its repeat waits for another approval, which says so."""
    config = deployment(tmp_path)
    with running(config) as host, RawLink(host) as link:
        first = approved(host, link, "b", seconds=60)
        link.send(request("BOOK", "/stay", {"mark": "b", "seconds": 60}))
        until(lambda: marks(config)["b"] == 1)
        host.kill()
    with running(config) as host, RawLink(host) as link:
        shown = kept(host, first)
        assert (shown["state"], shown["cut_off"]) == ("used", True)
        again = stay(link, "b", seconds=60)
        assert held(again) != first
        assert first in again.json()["explanation"]
        assert kept(host, held(again))["in_doubt"] == first
        assert marks(config) == {"b": 1}
        assert not verified(host, stored(database(host))).faults


class Repeater(threading.Thread):
    """Makes approved calls over one connection until the host is gone, and notes what was acknowledged."""

    def __init__(self, host: Host, context: ssl.SSLContext, marks: list[str]) -> None:
        super().__init__(daemon=True)
        self._link = RawLink(host, context=context)
        self._marks = marks
        self.acknowledged: list[str] = []

    def run(self) -> None:
        try:
            for mark in self._marks:
                if stay(self._link, mark).status == 200:
                    self.acknowledged.append(mark)
        except (OSError, Truncated, AssertionError):
            pass
        finally:
            self._link.close()


@pytest.mark.programme
def test_kills_at_any_moment_run_nothing_twice_and_lose_nothing(tmp_path: Path) -> None:
    """
    Calls that are approved are made by two callers at once each, and the host is killed meanwhile, and once more.

    No handler runs twice on one approval; what was acknowledged ran; what did not run can still be called.
    """
    chance = random.Random(SEED)
    config = deployment(tmp_path)
    acknowledged: list[str] = []
    asked: list[str] = []
    for life in range(KILLS):
        with running(config) as host:
            context = client_context(host)
            names = [f"{life}-{number}" for number in range(CALLS)]
            with RawLink(host, context=context) as link:
                for name in names:
                    approved(host, link, name)
            asked += names
            callers = [Repeater(host, context, names), Repeater(host, context, names[::-1])]
            for caller in callers:
                caller.start()
            wanted = chance.randrange(CALLS)
            until(lambda: sum(marks(config)[name] for name in names) >= wanted)  # noqa: B023
            host.kill()
            for caller in callers:
                caller.join(120)
                acknowledged += caller.acknowledged
        ran = marks(config)
        assert all(ran[name] <= 1 for name in asked), f"seed {SEED}: {ran}"
        assert all(ran[name] == 1 for name in acknowledged), f"seed {SEED}: {ran}"
    assert len(acknowledged) == len(set(acknowledged))
    with running(config) as host, RawLink(host) as link:
        before = marks(config)
        for name in asked:
            answer = stay(link, name)
            # Of those that ran, so many wait for another approval as may.
            assert answer.status in (200, 202, 429), answer.body
            if answer.status == 200:
                assert before[name] == 0, f"seed {SEED}: {name} ran already"
        assert all(count == 1 for count in marks(config).values()), f"seed {SEED}"
        assert not verified(host, stored(database(host))).faults


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    config = deployment(tmp_path_factory.mktemp("approvals"))
    for name in ("second", "short-lived"):
        made = agtp("agent", "new", name, "--scope", "booking:room", "--owner", "acme.example", cwd=config.parent)
        assert made.returncode == 0, made.stderr
    with running(config) as started:
        yield started


def test_two_repeats_at_once_over_two_connections_run_once(host: Host) -> None:
    """One is answered; the other is told that it runs, or waits for an approval of its own."""
    with RawLink(host) as one, RawLink(host) as other:
        approved(host, one, "at-once")
        octets = request("BOOK", "/stay", {"mark": "at-once"})
        one.send(octets)
        other.send(octets)
        answers = [one.answer(), other.answer()]
    statuses = sorted(each.status for each in answers if each is not None)
    assert (statuses[0] == 200 and statuses[1] in (202, 409)) or statuses == [200, 202]
    assert marks(host.config)["at-once"] == 1


def test_two_that_ask_at_once_ask_for_one_approval(host: Host) -> None:
    """Whichever the store takes first: both are told the same, and one call waits."""
    with RawLink(host) as one, RawLink(host) as other:
        for number in range(20):
            mark = f"same-{number}"
            octets = request("BOOK", "/stay", {"mark": mark})
            one.send(octets)
            other.send(octets)
            answers = [one.answer(), other.answer()]
            assert len({held(each) for each in answers if each is not None}) == 1
    with operator(host) as person:
        waiting = person.ask("QUERY", "/approvals", {"state": "pending", "limit": 200}).json()["result"]["approvals"]
    marked = [each["input"].get("mark", "") for each in waiting]
    assert sorted(mark for mark in marked if mark.startswith("same-")) == sorted(f"same-{n}" for n in range(20))


def test_a_recipe_is_approved_as_a_whole(host: Host) -> None:
    """Its step needs an approval, so its call does before the first step; approved, it runs with all its steps."""
    night = {"isbn": "9780142437230", "room": "attic", "arrival": "2031-01-01", "departure": "2031-01-02"}
    with RawLink(host) as link:
        asked = link.ask("BOOK", "/reading", night)
        approval_id = held(asked)
        before = len(stored(database(host)))
        with operator(host) as person:
            person.ask("CONFIRM", "/", {"target_id": approval_id, "status": "accepted"})
        done = link.ask("BOOK", "/reading", night)
        assert done.status == 200, done.body
        # Booked by itself, the room waits.
        held(link.ask("BOOK", "/room", {name: night[name] for name in ("room", "arrival", "departure")}))
    assert len(stored(database(host))) > before
    with operator(host) as person:
        record = person.ask("INSPECT", "/", {"target": "audit", "audit_id": done.audit_id}).json()["result"]
    assert record


def test_what_is_listed_says_that_a_person_approves_it(host: Host) -> None:
    """DISCOVER /methods and the manifest, for endpoints and for recipes; and it is listed as it is callable."""
    with RawLink(host) as link:
        listed = {(each["method"], each["path"]): each for each in link.ask("DISCOVER", "/methods").json()}
    for path in ("/stay", "/room", "/reading"):
        assert listed["BOOK", path]["approval"] == "required"
    assert "approval" not in listed["ECHO", "/text"]
    with RawLink(host, context=client_context(host, identified=False)) as link:
        manifest = link.ask("DISCOVER", "/").json()
    shown = {(each["method"], each["path"]): each for each in manifest["endpoints"] if "path" in each}
    assert shown["BOOK", "/reading"]["approval"] == "required"


def test_a_decision_about_what_may_be_called_says_that_it_needs_an_approval(host: Host) -> None:
    """``agtp can`` and INSPECT: allowed, and ``needs_approval``; asking leaves nothing that waits."""
    told = host.agtp_json("can", "demo", "BOOK", "/stay", "mark=asked-about")
    assert (told["allowed"], told["needs_approval"]) == (True, True)
    assert "approval" in told["not_asked"]
    assert host.agtp_json("can", "demo", "ECHO", "/text", "text=x")["needs_approval"] is False
    with operator(host) as person:
        waiting = person.ask("QUERY", "/approvals", {"state": "pending"}).json()["result"]["approvals"]
    assert not [each for each in waiting if each["input"].get("mark") == "asked-about"]


def test_another_agents_certificate_releases_nothing(host: Host) -> None:
    """The very same call with another agent's certificate waits for its own approval."""
    with RawLink(host) as link:
        first = approved(host, link, "theirs")
        with RawLink(host, context=client_context(host, agent="second")) as other:
            assert held(stay(other, "theirs")) != first
        assert marks(host.config)["theirs"] == 0
        assert stay(link, "theirs").status == 200


def test_an_approval_of_one_host_is_nothing_at_another(host: Host, tmp_path: Path) -> None:
    """Two hosts with keys and authorities of their own: what is approved there is not known here."""
    with running(deployment(tmp_path)) as second, RawLink(host) as here, RawLink(second) as there:
        first = approved(second, there, "elsewhere")
        waiting = held(stay(here, "elsewhere"))
        assert waiting != first
        with operator(host) as person:
            answer = person.ask("CONFIRM", "/", {"target_id": first, "status": "accepted"})
            assert answer.status == 404, answer.body
        with pytest.raises((OSError, AssertionError)), RawLink(host, context=_foreign(host, second)) as foreign:
            assert foreign.ask("CONFIRM", "/", {"target_id": waiting, "status": "accepted"}).status == 200
        assert held(stay(here, "elsewhere")) == waiting
        assert marks(host.config)["elsewhere"] == 0


def _foreign(host: Host, other: Host) -> ssl.SSLContext:
    """The operator of another host, at this one."""
    context = client_context(host, identified=False)
    context.load_cert_chain(other.state / "registrar.pem", other.state / "registrar.key")
    return context


def test_revoked_between_the_decision_and_the_call(host: Host) -> None:
    """410, and nothing runs."""
    with RawLink(host, context=client_context(host, agent="short-lived")) as link:
        approved(host, link, "revoked")
        gone = host.agtp("agent", "revoke", "short-lived", "--reason", "policy-violation")
        assert gone.returncode == 0, gone.stderr
        assert stay(link, "revoked").status == 410
    assert marks(host.config)["revoked"] == 0


def test_another_definition_of_a_step_releases_no_recipe(tmp_path: Path) -> None:
    """Approved, then the endpoint that a step calls is another one: the recipe's call waits anew."""
    config = deployment(tmp_path)
    night = {"isbn": "9780142437230", "room": "attic", "arrival": "2031-01-01", "departure": "2031-01-02"}
    with running(config) as before, RawLink(before) as link:
        first = held(link.ask("BOOK", "/reading", night))
        with operator(before) as person:
            person.ask("CONFIRM", "/", {"target_id": first, "status": "accepted"})
    rooms = config.parent / "endpoints" / "rooms.toml"
    rooms.write_text(rooms.read_text().replace("Books a room of the sample", "Books any room of the sample", 1))
    with running(config) as after, RawLink(after) as link:
        assert kept(after, first)["state"] == "approved"
        assert held(link.ask("BOOK", "/reading", night)) != first
        assert json.loads(json.dumps(kept(after, first)))["digest"]
