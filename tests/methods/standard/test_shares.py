"""What one agent may have of a collection and of a queue: others always find room, and work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from agtphost.testing import Answer, MemoryHost, TestAgent
from agtphost.vocabulary.bounds import share_of_free, share_together
from tests.rows import each_row

MOST = 40
MIB, LONG = 1_048_576, 65_000
OPEN: Mapping[str, Any] = {"read": [], "write": []}
COLLECTIONS: tuple[Mapping[str, Any], ...] = (
    {"name": "goods", "max_items": MOST, "remote": [{"name": "far", "pull": "QUERY /far"}]},
    {"name": "open", "max_items": MOST, "max_share": 1.0},
    {"name": "jobs", "queue": True, "max_items": MOST},
    {"name": "large"},
    {"name": "piles", "queue": True, "max_items": MOST, "max_share": 0.25},
)


class Sharing(MemoryHost):
    """A host with small collections; ``first`` and ``colleague`` are of one owner, ``other`` and ``next`` are not."""

    def __init__(self) -> None:
        super().__init__({"methods": {"standard": "*", "collection": [{**each, **OPEN} for each in COLLECTIONS]}})
        self.endpoint("QUERY", "/far", self._far)
        self.first = self.agent("first", hosted=True, members={"owner_id": "acme.example"})
        self.colleague = self.agent("colleague", hosted=True, members={"owner_id": "acme.example"})
        self.other = self.agent("other", hosted=True, members={"owner_id": "other.example"})
        self.next = self.agent("next", hosted=True, members={"owner_id": "next.example"})

    @staticmethod
    def _far(context: Any) -> Any:
        return {"items": [{"id": f"far{number}", "data": {"n": number}} for number in range(3)]}

    def ask(self, by: TestAgent, method: str, **given: Any) -> Answer:
        return self.call(method, "/", given, caller=by)

    def done(self, by: TestAgent, method: str, **given: Any) -> Any:
        answer = self.ask(by, method, **given)
        assert answer.status == 200, answer.document
        return answer.result

    def fill(self, by: TestAgent, collection: str = "goods", most: int = 2 * MOST) -> int:
        """Enter items until one is refused; how many there were."""
        for number in range(most):
            answer = self.ask(by, "REGISTER", entity_type=collection, data={"n": number})
            if answer.status != 200:
                return number
        return most

    def submit(self, by: TestAgent, queue: str = "jobs", most: int = 2 * MOST) -> int:
        """Submit work until some is refused; how much it was."""
        for number in range(most):
            if self.ask(by, "SUBMIT", target=queue, payload={"n": number}).status != 200:
                return number
        return most

    def pull(self, by: TestAgent, queue: str = "jobs", most: int = 100) -> list[str]:
        found = self.done(by, "PULL", source=queue, max_items=most, visibility_timeout=43_200)["items"]
        return [each["item_id"] for each in found]


@pytest.fixture
def host() -> Iterator[Sharing]:
    made = Sharing()
    yield made
    made.close()


def test_one_agent_has_half_and_the_next_one_half_of_the_rest(host: Sharing) -> None:
    """The first has half of the collection, its colleagues have a quarter more, and others find room after them."""
    assert (host.fill(host.first), host.fill(host.colleague)) == (20, 10)
    refused = host.ask(host.colleague, "REGISTER", entity_type="goods", data={})
    assert (refused.status, refused.reason) == (429, "owner-share-used")
    assert (refused.document["scope"], refused.document["limit"], refused.document["collection"]) == (
        "owner",
        10,
        "goods",
    )
    third = host.agent("third", hosted=True, members={"owner_id": "acme.example"})
    assert host.fill(third) == 1, "one of its own, whatever its owner's agents have"
    assert host.fill(host.other) == 5
    assert host.fill(host.next) >= 1


def test_a_share_of_the_whole_is_for_whoever_comes_first(host: Sharing) -> None:
    """With max_share = 1 one agent may have everything, as an operator of a single agent wants it."""
    assert host.fill(host.first, "open") == MOST
    assert host.ask(host.other, "REGISTER", entity_type="open", data={}).reason == "collection-full"


ENTERING: Mapping[str, Any] = {
    "REGISTER": lambda host, by: host.ask(by, "REGISTER", entity_type="goods", data={"n": 1}),
    "IMPORT": lambda host, by: host.ask(by, "IMPORT", target="goods", source=[{"n": 1}, {"n": 2}]),
    "PUBLISH": lambda host, by: host.ask(by, "PUBLISH", channel="goods", content={"n": 1}),
    "SYNC": lambda host, by: host.ask(by, "SYNC", resource="goods", remote="far"),
}


@each_row("method", sorted(ENTERING))
def test_every_method_that_enters_items_keeps_the_share(method: str) -> None:
    """Whoever has its share enters nothing more by another method; another agent does."""
    host = Sharing()
    assert host.fill(host.first) == 20
    refused = ENTERING[method](host, host.first)
    assert (refused.status, refused.reason) == (429, "owner-share-used"), refused.document
    if method != "SYNC":
        assert ENTERING[method](host, host.other).status == 200
    host.close()


def test_a_transfer_makes_no_room_and_takes_none(host: Sharing) -> None:
    """Items count for whoever entered them: giving them away is no way to enter more, or to fill another's share."""
    made = [
        host.done(host.first, "REGISTER", entity_type="goods", data={"n": n})["resource_id"] for n in range(MOST // 2)
    ]
    for resource_id in made:
        parties = {"from_principal": host.first.agent_id, "to_principal": host.other.agent_id}
        host.done(host.first, "TRANSFER", resource_id=resource_id, **parties)
    assert host.fill(host.first) == 0
    assert host.fill(host.other) == 10


def test_one_agent_has_half_of_a_queue_in_its_hands(host: Sharing) -> None:
    """However often it asks: the other half is for others, and each of them finds work."""
    assert (host.submit(host.first), host.submit(host.other)) == (20, 10)
    hands = [host.pull(host.first), host.pull(host.first)]
    assert [len(each) for each in hands] == [15, 0]
    shown = host.done(host.first, "PULL", source="jobs", max_items=9)
    assert (shown["items"], shown["left_for_others"]) == ([], 0.5)
    assert len(host.pull(host.colleague)) == 8, "of the fifteen that nobody else has"
    assert len(host.pull(host.other)) == 4
    assert len(host.pull(host.next)) == 2
    late = host.agent("late", hosted=True, members={"owner_id": "late.example"})
    assert len(host.pull(late)) == 1


def test_agents_of_one_owner_have_three_quarters_together(host: Sharing) -> None:
    """Many agents of one operator do not hold everything: a quarter is for others, and each has one at least."""
    assert (host.submit(host.other), host.submit(host.next)) == (20, 10)
    workers = [host.agent(f"worker{n}", hosted=True, members={"owner_id": "acme.example"}) for n in range(4)]
    hands = [len(host.pull(worker)) for worker in workers]
    assert hands[:2] == [15, 8] and hands[2:] == [1, 1], hands
    assert len(host.pull(host.first, most=1)) == 1
    assert host.pull(host.other)


@each_row("queue", ["jobs", "piles"])
def test_one_worker_gets_through_a_queue(queue: str) -> None:
    """It is given part after part as it confirms them, down to the last item; nothing is kept from it for ever."""
    host = Sharing()
    submitted = host.submit(host.other, queue)
    assert submitted == share_of_free(MOST, 0, 0.5 if queue == "jobs" else 0.25)
    done, rounds = 0, 0
    while part := host.pull(host.first, queue):
        for item in part:
            host.done(host.first, "CONFIRM", target_id=item, status="accepted")
        done, rounds = done + len(part), rounds + 1
    assert done == submitted and rounds <= 2 * submitted
    host.close()


def test_what_is_hidden_no_longer_is_in_nobodys_hands(host: Sharing) -> None:
    """Time that has passed, what was given back and what is done make room in a worker's hands."""
    host.submit(host.other)
    given = {"source": "jobs", "max_items": 100, "visibility_timeout": 5}
    first = host.done(host.first, "PULL", **given)["items"]
    assert len(first) == 10 and host.pull(host.first) == []
    host.done(host.first, "CONFIRM", target_id=first[0]["item_id"], status="rejected")
    assert len(host.done(host.first, "PULL", **given)["items"]) == 1
    host.clock.advance(6)
    assert len(host.done(host.first, "PULL", **given)["items"]) == 10


def test_a_hold_ends_twelve_hours_after_pull_however_often_it_is_extended(host: Sharing) -> None:
    """Who holds what others have left of a queue is asked for its share again at the latest then."""
    host.submit(host.other)
    held = host.pull(host.first)
    while rest := host.pull(host.next):
        for item_id in rest:
            host.done(host.next, "CONFIRM", target_id=item_id, status="accepted")
    for _ in range(3):
        host.clock.advance(5 * 3_600)
        answers = [host.ask(host.first, "CONFIRM", target_id=each, status="deferred") for each in held]
        refused = [answer for answer in answers if answer.status != 200]
        if refused:
            break
    assert [(each.status, each.reason) for each in refused] == [(429, "owner-share-used")] * len(held)
    assert len(host.pull(host.first)) == len(held) // 2
    assert host.pull(host.next)


def test_what_others_hand_over_leaves_an_agent_room(host: Sharing) -> None:
    """Nobody asks the new owner of a TRANSFER: gifts end at half of its quota, and free nothing of the giver's."""
    gifts = {"from_principal": host.first.agent_id, "to_principal": host.other.agent_id}
    given, answers = 0, []
    for number in range(40):
        source = [{"id": f"{number}-{each}", "text": "x" * LONG} for each in range(15)]
        host.done(host.first, "IMPORT", target="large", source=source)
        answers += [host.ask(host.first, "TRANSFER", resource_id=f"large/{each['id']}", **gifts) for each in source]
        if answers[-1].status != 200:
            break
    refused = [answer.reason for answer in answers if answer.status == 429]
    given = len(answers) - len(refused)
    assert refused and set(refused) == {"too-many-items"}, refused
    assert 500 < given <= 32 * MIB // LONG
    host.done(host.other, "REGISTER", entity_type="large", data={"text": "x" * LONG})
    # What comes back to who entered it is no gift, and makes room for one.
    back = {"from_principal": host.other.agent_id, "to_principal": host.first.agent_id}
    host.done(host.other, "TRANSFER", resource_id="large/0-0", **back)
    host.done(host.first, "TRANSFER", resource_id="large/0-0", **gifts)


def test_shares_of_what_is_free() -> None:
    """One owner alone has the share, all of one owner together the share twice, and everybody at least one."""
    assert [share_of_free(100, others, 0.5) for others in (0, 50, 99, 100, 200)] == [50, 25, 1, 1, 1]
    assert (share_together(0.5), share_together(1.0)) == (0.75, 1.0)
