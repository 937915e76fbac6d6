"""What one request from outside may cost: calls inside this host, and octets stored, are charged to its caller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from agtphost.dispatch.call_budget import MAX_DEPTH, MOST_CALLS
from agtphost.testing import Answer
from tests.methods.standard.orchestration.hosts import CHANGES, RECIPES, Workshop, book, teas
from tests.rows import each_row

MOST = 60
"""Calls that a caller may make at once; a further one in a minute, so that no test waits for one."""

PER_MINUTE = 1
RECIPE = (
    RECIPES
    + """
[[recipe]]
name = "long"
version = "1"
description = "Books many stays."
"""
    + "".join(
        f"""
[[recipe.step]]
method = "BOOK"
path = "/stays"
input = {{ room = "{number}" }}
"""
        for number in range(20)
    )
)


class Charged(Workshop):
    """A host on which each agent may make sixty calls."""

    def __init__(self, folder: Any = None, limits: Mapping[str, float] | None = None) -> None:
        more: dict[str, Any] = {}
        if folder is not None:
            (folder / "recipes.toml").write_text(RECIPE)
            more = {"recipes": {"file": str(folder / "recipes.toml")}}
        super().__init__(
            {
                "limits": {"requests_per_minute": PER_MINUTE, "rate_burst": 60 * MOST, **(limits or {})},
                "registry": {},
                "methods": {
                    "standard": "*",
                    "procedures": {"long": "long"} if more else {},
                    "collection": [{"name": "goods", "read": [], "write": []}],
                },
                **more,
            }
        )
        self.endpoint("BOOK", "/many/{count}", self._many)
        self.endpoint("QUERY", "/deeper/{count}", self._deeper)
        self.desk = self.agent("desk", hosted=True)
        self.action = ""

    async def _many(self, context: Any) -> Any:
        for number in range(int(context.input["count"])):
            await context.invoke("QUERY", "/teas", {"kind": str(number)})
        return {"made": context.input["count"]}

    async def _deeper(self, context: Any) -> Any:
        count = int(context.input["count"])
        if count:
            await context.invoke("QUERY", f"/deeper/{count - 1}", {})
        return {"left": count}

    def left(self, method: str = "BATCH") -> int:
        """How many calls of a kind the planner may still make: asked by one that would be too many."""
        refused = self.ask(method, {"calls": [teas()] * 100})
        return int(refused.document["left"])


@pytest.fixture
def host(tmp_path: Any) -> Iterator[Charged]:
    made = Charged(tmp_path)
    yield made
    made.close()


def require_refused(answer: Answer, cost: int, left: int) -> None:
    """429 that says what it would have cost, what is left and when to come again."""
    document = answer.document
    assert (answer.status, document["reason"]) == (429, "rate-limited"), document
    assert (document["cost"], document["left"], document["limit_per_minute"]) == (cost, left, PER_MINUTE)
    assert int(answer.reply.headers.get("retry-after") or 0) == document["retry_after_seconds"] >= 1


def test_a_batch_counts_as_its_calls(host: Charged) -> None:
    """Two batches of twenty are 42 of 60 requests; the third is refused before any of its calls, and later made."""
    for _ in range(2):
        assert host.result("BATCH", {"calls": [teas()] * 20})["succeeded"] == 20
    done = len(host.done)
    require_refused(host.ask("BATCH", {"calls": [teas()] * 20}), 20, 17)
    assert len(host.done) == done == 40
    assert host.result("BATCH", {"calls": [teas()] * 16})["succeeded"] == 16, "what is left can be used"


def test_a_batch_that_can_never_be_made_says_so(host: Charged) -> None:
    """More calls than a minute has are refused with the number that one request may make."""
    answer = host.ask("BATCH", {"calls": [teas()] * 100})
    require_refused(answer, 100, 59)
    assert answer.document["remedy"] == "Make at most 60 calls in one request."


ANNOUNCED: Mapping[str, tuple[int, Any]] = {
    "BATCH": (20, lambda host: host.ask("BATCH", {"calls": [book("a")] * 20})),
    "CHAIN": (20, lambda host: host.ask("CHAIN", {"steps": [book("a")] * 20})),
    "RUN": (20, lambda host: host.ask("RUN", {"procedure_id": "long"})),
    "a card's batch": (
        25,
        lambda host: host.ask("EXECUTE", {"action": host.action, "batch": [{"room": "a"}] * 25}, "/cards/agent:desk"),
    ),
}
"""Requests that say how many calls they make: so many, and the request."""


@each_row("name", sorted(ANNOUNCED))
def test_what_is_announced_is_charged_before_anything_is_done(name: str, tmp_path_factory: Any) -> None:
    """It is done as long as its calls are left, and not begun when fewer are; no call of it is free."""
    host = Charged(tmp_path_factory.mktemp("charged"))
    told = host.ask("EXECUTE", {"action": "none", "parameters": {}}, "/cards/agent:desk").document["operations"]
    host.action = next(each for each in told if "stays" in each)
    calls, ask = ANNOUNCED[name]
    statuses = []
    for _ in range(4):
        before = len(host.done)
        answer = ask(host)
        statuses.append(answer.status)
        if answer.status == 429:
            assert answer.document["cost"] == calls > answer.document["left"]
            assert len(host.done) == before, "nothing of it was begun"
            break
    assert statuses[0] == 200 and statuses[-1] == 429, (statuses, answer.document)
    assert len(host.done) + len(statuses) <= MOST
    host.close()


def test_calls_that_a_function_makes_are_charged_one_by_one(host: Charged) -> None:
    """Nobody knows beforehand how many there are: as many are made as are left, and the next one is refused."""
    assert host.ask("BOOK", {}, "/many/50").status == 200
    answer = host.ask("BOOK", {}, "/many/50")
    assert (answer.status, len(host.done)) == (429, MOST), answer.document


def test_a_list_of_calls_has_no_lists(host: Charged) -> None:
    """A batch of a card, RUN, BATCH and CHAIN are no calls of a BATCH; the first and the last two none of a CHAIN."""
    batch = {"method": "EXECUTE", "path": "/cards/agent:desk", "parameters": {"batch": [{}] * 50}}
    run = {"method": "RUN", "path": "/", "parameters": {"procedure_id": "long"}}
    for inner in (batch, {"method": "BATCH", "path": "/"}, {"method": "CHAIN", "path": "/"}):
        assert host.ask("BATCH", {"calls": [inner]}).status == 422
        assert host.ask("CHAIN", {"steps": [inner]}).status == 422
    (outcome,) = host.result("BATCH", {"calls": [run], "partial_success": True})["outcomes"]
    assert (outcome["status"], outcome["reason"]) == (422, "invocation-too-deep")
    assert host.done == []


def test_calls_of_one_request_are_bounded_in_all_and_in_depth() -> None:
    """However much its caller has left, one request makes a thousand calls at every depth together, ten deep."""
    host = Charged(limits={"requests_per_minute": 1_000_000, "rate_burst": 60})
    assert host.ask("BOOK", {}, f"/many/{MOST_CALLS}").status == 200
    answer = host.ask("BOOK", {}, f"/many/{MOST_CALLS + 1}")
    assert (answer.status, answer.document["reason"]) == (422, "invocation-too-deep")
    half = {"method": "BOOK", "path": f"/many/{MOST_CALLS // 2}"}
    failed = [each["ok"] for each in host.result("BATCH", {"calls": [half] * 3, "partial_success": True})["outcomes"]]
    assert failed.count(True) == 1, "calls of its calls are counted with it"
    assert host.ask("QUERY", {}, f"/deeper/{MAX_DEPTH}").status == 200
    assert host.ask("QUERY", {}, f"/deeper/{MAX_DEPTH + 1}").document["reason"] == "invocation-too-deep"
    host.close()


def test_a_workflow_that_goes_on_by_itself_is_charged_to_whoever_ordered_it(host: Charged) -> None:
    """Steps of a CHAIN in the background are counted when they are made, and not made when none is left."""
    for _ in range(4):
        host.ask("CHAIN", {"steps": [book("a")] * 30, "background": True})
        host.turn()
    assert 30 <= len(host.done) <= MOST


def test_steps_that_are_left_out_and_runs_of_a_schedule_are_charged(host: Charged) -> None:
    """Whatever is written of a step that was not taken has been paid for: at the order, and again with each run."""
    left = [{**book("a"), "when": "=`false`"}] * 25
    given = {"steps": [book("a"), *left], "context_propagation": True}
    assert host.ask("CHAIN", {**given, "background": True}).status == 202
    assert host.ask("CHAIN", {**given, "every": 60}).status == 202
    host.turn()
    # Two orders, the call of one, and the question; what they store is more than they pay for.
    assert len(host.done) == 1 and 0 < host.left() <= MOST - 2 * 26 - 2
    host.turn(61)
    notes = host.result("QUERY", {}, "/notifications")["notifications"]
    assert "rate-limited" in str(notes), "a run that is not paid for fails, and its owner hears of it"
    assert len(host.done) == 1


def test_what_is_stored_is_paid_for(host: Charged) -> None:
    """A long item counts as a call for every 6,000 octets; one that is not paid for is not stored."""
    stored = 0
    for number in range(10):
        answer = host.ask("REGISTER", {"entity_type": "goods", "data": {"id": f"n{number}", "text": "x" * 60_000}})
        if answer.status == 429:
            break
        stored += 1
    assert (answer.status, answer.document["reason"], answer.document["cost"]) == (429, "rate-limited", 10)
    assert stored == 5 and "octets" in answer.document["explanation"]
    assert host.ask("FETCH", {"resource_id": f"goods/n{stored - 1}"}).status == 200
    assert host.ask("FETCH", {"resource_id": f"goods/n{stored}"}).status == 404, "what was refused is not there"


def test_what_was_done_is_owed(host: Charged) -> None:
    """A stored answer cannot be refused when it is known: the caller waits for its next call until it has paid."""
    host.endpoint("BOOK", "/long", lambda context: {"text": "x" * 60_000}, semantic=CHANGES)
    answers = [host.ask("BOOK", {}, "/long", headers={"Idempotency-Key": f"k{n}"}).status for n in range(8)]
    assert answers == [200] * 6 + [429] * 2


def test_what_is_logged_is_owed(host: Charged) -> None:
    """LOG has a record of its own beside that of its answer: its octets are paid for as well."""
    given = {"event_type": "a", "data": {"text": "x" * 16_000}}
    answers = []
    while 429 not in answers and len(answers) < MOST:
        answers.append(host.ask("LOG", given).status)
    assert 10 <= answers.count(200) <= 20, answers


def test_an_escalation_has_calls_of_its_own(host: Charged) -> None:
    """Whatever else was used up, a call for a human gets through."""
    assert host.ask("QUERY", {}, "/deeper/5").status == 200
    host.ask("BOOK", {}, "/many/100")
    assert host.ask("QUERY", {}, "/deeper/0").status == 429
    assert host.ask("ESCALATE", {"task_id": "t", "reason": "resource_unavailable", "context": {}}).status == 202
