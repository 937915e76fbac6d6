"""The one list of what is held: complete, enforced, and the same in the documentation."""

from __future__ import annotations

import ast
import contextlib
import math
import re
from pathlib import Path
from typing import Any

import pytest

from agtphost.audit.drafts import Change
from agtphost.audit.state import AT_ONCE, LOOKS, StateFull, StateTable, UnknownKind
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.gates.authority import ClaimedScopesGate
from agtphost.identity.agents import Agent
from agtphost.identity.peer import Assurance, Peer
from agtphost.stores.rows import ItemRow
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.bounds import ANY, ItemQuota
from agtphost.vocabulary.quotas import ANSWERS, CLAIMS, ITEM_KINDS
from agtphost.wire.events import Request
from agtphost.wire.headers import Headers
from tests.rows import each_row
from tests.vocabulary.register import CACHES, TABLES
from tests.vocabulary.tables import ROOT, found, tables

ALICE, BOB = "a" * 64, "b" * 64
LISTED = {cache.place for cache in CACHES}.union(*TABLES.values())


class Ledger:
    """What the ledger does with changes: admit, commit, settle."""

    def __init__(self, now: float = 1_000.0, **kinds: ItemQuota) -> None:
        self.now = now
        self.table = StateTable(now=lambda: self.now, kinds={**ITEM_KINDS, **kinds})

    def put(
        self, kind: str, key: str, owner: str, *, proven: bool = True, seconds: int | None = None, **value: Any
    ) -> None:
        expires = None if seconds is None else int((self.now + seconds) * 1000)
        self._commit(Change(kind=kind, key=key, value=value, owner=owner, expires_at=expires), proven)

    def drop(self, kind: str, key: str) -> None:
        self._commit(Change(kind=kind, key=key, value=None))

    def _commit(self, change: Change, proven: bool = True) -> None:
        admitted = self.table.admit((change,), proven=proven)
        rows = [
            ItemRow(
                each.kind,
                each.key,
                bytes.fromhex(each.owner),
                1,
                each.expires_at,
                None if each.value is None else jsontext.encode(each.value),
            )
            for each in admitted.changes
        ]
        self.table.settle(admitted)
        self.table.apply(rows)


def small(holding: ItemQuota) -> ItemQuota:
    """The same kind with numbers that a test can reach."""
    fields = {name: getattr(holding, name) for name in holding.__slots__}
    return ItemQuota(
        **{**fields, "per_owner": 4, "in_all": 13, "unproven": 2, "octets_per_owner": 4_000, "octets_in_all": 13_000}
    )


def test_every_table_of_the_host_is_on_the_list() -> None:
    """A new cache, or one that is gone, fails here; its bound has to be thought of."""
    tables_of_host = found()
    assert tables_of_host - LISTED == set()
    assert LISTED - tables_of_host == set()


def test_a_table_that_is_not_on_the_list_is_noticed() -> None:
    """The control."""
    source = "class A:\n    def f(self):\n        self._x: dict[str, int] = {}\n        self._y = OrderedDict()\n"
    assert set(tables(source, "m")) == {"m:A._x", "m:A._y"}
    assert set(tables("@lru_cache(maxsize=9)\ndef f(x): ...\n", "m")) == {"m:f"}


def test_an_unlisted_kind_is_refused() -> None:
    """Neither admitted, nor found."""
    table = StateTable()
    with pytest.raises(UnknownKind):
        table.admit((Change(kind="novelty", key="k", value={}),))
    with pytest.raises(UnknownKind):
        table.apply([ItemRow("novelty", "k", b"", 1, None, b"{}")])


def test_what_could_not_be_read_again_is_not_kept() -> None:
    """An item that is nested too deep is refused before it is durable: read at the next start, it would end that."""
    table, deep = StateTable(), {"a": {}}
    for _ in range(jsontext.KEPT_DEPTH - 2):
        deep = {"a": deep}
    kept = Change(kind="quote", key="k", value=deep, owner=ALICE)
    table.settle(table.admit((kept,)))
    table.apply([ItemRow("quote", "k", bytes(32), 1, None, jsontext.encode(deep))])
    with pytest.raises(StateFull):
        table.admit((Change(kind="quote", key="k", value={"a": deep}, owner=ALICE),))


@each_row("kind", sorted(ITEM_KINDS))
def test_each_kind_is_bounded_by_owner_and_in_all(kind: str) -> None:
    """Filled to its cap and beyond: items and octets hold, what has finished goes, and others have room."""
    holding = small(ITEM_KINDS[kind])
    host = Ledger(**{kind: holding})
    done = {holding.state: next(iter(holding.finished - {"*", "True"}), True)} if holding.state else {}
    refused = 0
    for number in range(20):
        try:
            host.put(kind, str(number), ALICE, **done, text="x" * 20)
        except StateFull as full:
            assert full.holding is holding and not full.in_all
            refused += 1
    assert host.table.count(kind, ALICE) == 4
    assert bool(refused) is not bool(holding.finished)
    host.put(kind, "b", BOB, **done)
    assert host.table.get(kind, "b") is not None, "another owner has its own share"
    for owner in (f"{number:064x}" for number in range(20)):
        try:
            host.put(kind, f"of {owner}", owner, **done)
        except StateFull as full:
            assert full.in_all
    assert host.table.count(kind) == 13
    long = Ledger(**{kind: holding})
    for number in range(12):
        try:
            long.put(kind, f"long {number}", ALICE, **done, text="y" * 1_500)
        except StateFull as full:
            assert full.unit == "octets"
    assert 0 < long.table.octets(kind, ALICE) <= 4_000


FINISHING = sorted(kind for kind, each in ITEM_KINDS.items() if each.finished and each.finished != ANY)
"""Kinds whose items finish, and go where room is wanted."""

KEPT = sorted(
    kind
    for kind in ITEM_KINDS
    if ITEM_KINDS[kind].finished != ANY and ITEM_KINDS[kind].per_owner < ITEM_KINDS[kind].in_all
)
"""Kinds of which agents have open items."""


@each_row("kind", KEPT)
def test_one_alone_reaches_its_bound_and_many_leave_room_for_the_next(kind: str) -> None:
    """However many take all they can: who comes after them finds room, and nobody's items go for it."""
    holding = ITEM_KINDS[kind]
    assert 3 * holding.per_owner <= holding.in_all and 3 * holding.octets_per_owner <= holding.octets_in_all
    fields = {name: getattr(holding, name) for name in holding.__slots__}
    crowded = ItemQuota(
        **{**fields, "per_owner": 25, "in_all": 90, "octets_per_owner": 3_000_000, "octets_in_all": 9_000_000}
    )
    host = Ledger(**{kind: crowded})
    had: list[int] = []
    for owner in (f"{number:064x}" for number in range(6)):
        for number in range(31):
            with contextlib.suppress(StateFull):
                host.put(kind, f"{owner} {number}", owner)
        had.append(host.table.count(kind, owner))
    assert had[0] == 25 and min(had) >= 2, had
    assert host.table.count(kind, "0" * 64) == 25, "nothing of the first one's went"
    with pytest.raises(StateFull, match="next to what the others have") as full:
        host.put(kind, "one more", f"{5:064x}")
    assert not full.value.in_all and full.value.limit < 25


HOSTS_OWN = sorted(
    kind for kind, each in ITEM_KINDS.items() if each.unproven >= each.in_all and kind != "a2a-front-task"
)
"""Kinds that follow from what the operator does; no agent's request adds an item."""

OF_ONE_AGENT = {"a2a-front-task": "the agent of the A2A front owns all of them; of its clients each has 200 of 1,000"}
"""Kinds of agents of which one owner may have everything, and what keeps others from being shut out."""


def test_one_owner_at_its_bound_leaves_room_for_another() -> None:
    """
    The rule for everything durable that agents contribute to: nobody's bound, in items or octets, is that of all.

    An owner's own bound is at most a third of the whole, and where owner and cause differ, the cause has a share too.
    """
    agents = {kind: each for kind, each in ITEM_KINDS.items() if kind not in HOSTS_OWN and kind not in OF_ONE_AGENT}
    assert len(agents) > 30 and "collection-item" in agents and "card-version" in agents
    greedy = [
        kind
        for kind, each in agents.items()
        if 3 * each.per_owner > each.in_all or 3 * each.octets_per_owner > each.octets_in_all
    ]
    assert greedy == []
    assert {kind for kind in HOSTS_OWN if kind in GIVEN_BY_AGENTS} == set()
    for kind, member in GIVEN_BY_AGENTS.items():
        assert ITEM_KINDS[kind].giver == member in (*ITEM_KINDS[kind].indexed, *ITEM_KINDS[kind].brief), kind


GIVEN_BY_AGENTS = {"notification": "sender", "collection-item": "entered_by"}
"""Kinds whose items belong to others than those who cause them."""


@each_row("kind", sorted(GIVEN_BY_AGENTS))
def test_who_gives_to_many_leaves_room_for_others(kind: str) -> None:
    """One sender writes to as many inboxes as there are: what it causes has a share of the whole as owners have."""
    fields = {name: getattr(ITEM_KINDS[kind], name) for name in ITEM_KINDS[kind].__slots__}
    member = ITEM_KINDS[kind].giver
    crowded = ItemQuota(**{**fields, "per_owner": 10, "in_all": 100, "unproven": 10})
    host = Ledger(**{kind: crowded})
    refused = 0
    for number in range(100):
        try:
            host.put(kind, f"a{number}", f"{number:064x}", **{member: ALICE})
        except StateFull as full:
            assert not full.in_all and member in str(full)
            refused += 1
    assert 25 <= host.table.count(kind) <= 34 and refused, host.table.count(kind)
    host.put(kind, "b", f"{1:064x}", **{member: BOB})
    with pytest.raises(StateFull):
        host.put(kind, "again", f"{2:064x}", **{member: ALICE})
    for number in range(5):
        if crowded.finished:
            read = {crowded.state: next(iter(crowded.finished))}
            host.put(kind, f"a{number}", f"{number:064x}", **{member: ALICE, **read})
        else:
            host.drop(kind, f"a{number}")
    host.put(kind, "again", f"{2:064x}", **{member: ALICE})


def test_an_item_that_changes_hands_uses_the_quota_of_its_new_owner() -> None:
    """A quota that is used up takes no item of another agent either, by number or by octets."""
    fields = {name: getattr(ITEM_KINDS["collection-item"], name) for name in ITEM_KINDS["collection-item"].__slots__}
    for bound in ({"per_owner": 3, "in_all": 100}, {"octets_per_owner": 300, "octets_in_all": 40_000}):
        host = Ledger(**{"collection-item": ItemQuota(**{**fields, **bound})})
        for number in range(3):
            host.put("collection-item", f"own{number}", ALICE, text="x" * 80)
            host.put("collection-item", f"given{number}", BOB, text="x" * 80)
        for _ in range(2):
            with pytest.raises(StateFull):
                host.put("collection-item", "given0", ALICE, text="x" * 80)
        host.put("collection-item", "own0", ALICE, text="y" * 80)


@each_row("kind", FINISHING)
def test_what_has_finished_takes_nobodys_share(kind: str) -> None:
    """It goes where room is wanted: who comes late has all of its own."""
    holding = small(ITEM_KINDS[kind])
    host = Ledger(**{kind: holding})
    ended = {holding.state: next(iter(holding.finished))}
    for owner in (f"{number:064x}" for number in range(4)):
        for number in range(4):
            host.put(kind, f"{owner} {number}", owner, **ended)
    for number in range(4):
        host.put(kind, str(number), ALICE)
    assert (host.table.count(kind, ALICE), host.table.count(kind)) == (4, 13)


@each_row("kind", FINISHING)
def test_what_is_open_never_goes_for_what_is_new(kind: str) -> None:
    """Open escalations, unread messages, running tasks: the newcomer is refused."""
    holding = small(ITEM_KINDS[kind])
    host = Ledger(**{kind: holding})
    for number in range(4):
        host.put(kind, str(number), ALICE, **{holding.state: "open"})
    with pytest.raises(StateFull):
        host.put(kind, "more", ALICE)
    assert [item.key for item in host.table.items_of(kind, ALICE)] == ["0", "1", "2", "3"]


@each_row("kind", sorted(ITEM_KINDS))
def test_who_has_proven_nothing_has_a_small_share_and_pushes_nothing_out(kind: str) -> None:
    """A caller below certificate assurance cannot have another's items go."""
    holding = small(ITEM_KINDS[kind])
    host = Ledger(**{kind: holding})
    for number in range(3):
        host.put(kind, str(number), ALICE, **({holding.state: "True"} if holding.state else {}))
    with pytest.raises(StateFull):
        host.put(kind, "more", ALICE, proven=False)
    assert host.table.count(kind, ALICE) == 3


def test_what_has_expired_leaves_memory_in_bounded_steps() -> None:
    """And its room is free again, however much expires at once."""
    host = Ledger()
    for number in range(1_200):
        host.put("quote", str(number), f"{number:064x}", seconds=60)
    host.now += 61
    steps = 1
    while host.table.prune():
        steps += 1
    # A step ends early where its time is used up, so a slow machine makes more of them.
    assert math.ceil(1_200 / AT_ONCE) <= steps <= 1_200 // LOOKS and host.table.count("quote") == 0
    assert not host.table._ends and not host.table._tables["quote"].owned


def test_what_is_under_way_counts() -> None:
    """Many changes at once, none of them committed yet, come to no more than the cap; a failure gives it back."""
    host = Ledger(quote=small(ITEM_KINDS["quote"]))
    under_way = []
    for number in range(6):
        with contextlib.suppress(StateFull):
            under_way.append(host.table.admit((Change(kind="quote", key=str(number), value={}, owner=ALICE),)))
    assert len(under_way) == 4
    for admitted in under_way:
        host.table.settle(admitted)
    assert host.table.count("quote", ALICE) == 0


def test_no_request_goes_through_all_items_of_a_kind() -> None:
    """``StateTable.all`` is for start-up and for what only operators do."""
    allowed = {"adapters.mcp.kept_pins", "audit.state", "host.agent_admission"}
    users = set()
    for path in ROOT.rglob("*.py"):
        source = path.read_text()
        for node in ast.walk(ast.parse(source)) if ".all(" in source else ():
            called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "all"
            if called and ("held" in ast.unparse(node) or path.stem == "held"):
                users.add(".".join(path.relative_to(ROOT).with_suffix("").parts))
    assert users <= allowed


def test_a_flood_of_claims_pushes_out_its_own_alone() -> None:
    """Many Authority-Scopes of one agent, and long ones, are forgotten; 275 MiB before."""
    gate = ClaimedScopesGate()
    agents: list[Any] = [type("A", (), {"agent_id": who, "scopes": frozenset({"a:*"})})() for who in (ALICE, BOB)]

    def claim(agent: Agent, text: str) -> None:
        request = Request(method="QUERY", headers=Headers([("Authority-Scope", text)]))
        exchange = Exchange(request, Peer(address="x"), 0.0)
        exchange.caller, exchange.assurance = agent, Assurance.CERTIFICATE
        gate.check(exchange)

    claim(agents[1], "a:kept")
    for number in range(500):
        claim(agents[0], f"a:n{number}")
        claim(agents[0], ",".join(f"a:{number}x{part}" for part in range(200)))
    assert len(gate._memo[ALICE]) == CLAIMS.most_of_one and len(gate._memo[BOB]) == 1
    assert gate._remembered == CLAIMS.most_of_one + 1
    assert all(len(text) <= 1_024 for _, text, _ in gate._memo[ALICE] if text)


def test_numbers_are_those_of_the_code() -> None:
    """Where a cache has its number beside its code."""
    from agtphost.adapters.mcp import call_tracker, request_states
    from agtphost.dispatch import sessions
    from agtphost.dispatch.gates import limits, principal
    from agtphost.gateway import gateway
    from agtphost.methods.cognitive import query
    from agtphost.methods.discovery import candidates, discover, document_cache
    from agtphost.negotiation import call_ceiling, schema_cache
    from agtphost.protocols import admission
    from agtphost.search import word_stems

    bounds = {cache.place.partition(":")[2]: cache.in_all for cache in CACHES}
    assert bounds["ActingPrincipalGate._valid"] == principal.REMEMBERED
    assert bounds["Allowances._owed"] == limits.MOST_CALLERS
    assert bounds["origin_of"] == admission.origin_of.cache_parameters()["maxsize"]
    assert bounds["_stem"] == word_stems._stem.cache_parameters()["maxsize"]
    assert bounds["words_of"] == query.words_of.cache_parameters()["maxsize"]
    assert bounds["Known._allowed"] == candidates.MOST_AUTHORITIES
    assert (bounds["Discovery._lists"], bounds["Discovery._warned"]) == (discover.MOST_LISTS, discover.MOST_WARNED)
    assert bounds["KeptDocuments._documents"] == document_cache.MOST_DOCUMENTS
    assert bounds["SessionTable._sessions"] == sessions.MOST_SESSIONS + 2 * sessions.MOST_UNPROVEN
    assert bounds["CallTracker._levels"] == call_tracker.MOST_LEVELS
    assert bounds["RequestStates._by_token"] == request_states.MOST
    assert bounds["SchemaCache._known"] == schema_cache.MOST
    assert bounds["CallCeiling._seen"] == call_ceiling.MOST_CALLERS
    assert bounds["ClientHeads._commons"] == gateway.MOST_HEADS


def rows() -> list[str]:
    """What the page says, row by row."""

    def size(octets: int) -> str:
        return f"{octets // (1 << 20)} MiB" if octets >= 1 << 20 else f"{octets // 1024} KiB"

    lines = []
    for held in ITEM_KINDS.values():
        lives = "until it ends" if held.lives is None else f"{held.lives // 3600} h"
        own = f"{held.per_owner:,} / {size(held.octets_per_owner)}"
        every = f"{held.in_all:,} / {size(held.octets_in_all)}"
        lines += [f"   * - {held.kind}"]
        lines += [f"     - {cell}" for cell in (held.says, own, every, f"{held.unproven:,}", lives, held.at_the_cap)]
    for cache in CACHES:
        lines += [
            f"   * - ``{cache.place}``",
            f"     - {cache.says}",
            f"     - {cache.most_of_one or '-'}",
            f"     - {cache.in_all:,}",
            f"     - {size(cache.octets)}",
            f"     - {cache.lives}",
            f"     - {cache.at_the_cap}",
        ]
    return lines


def test_the_page_has_every_number() -> None:
    """``docs/limits.rst`` is written from this list: ``python -m tests.vocabulary.test_quotas`` writes it anew."""
    text = (Path(__file__).resolve().parents[2] / "docs" / "limits.rst").read_text()
    shown = [line for line in text.splitlines() if re.match(r"   \* - |     - ", line)]
    assert shown == [*HEADS[0], *rows()[: 7 * len(ITEM_KINDS)], *HEADS[1], *rows()[7 * len(ITEM_KINDS) :]]
    assert text == page()


HEADS = (
    [
        "   * - kind",
        "     - what it is",
        "     - of one owner",
        "     - in all",
        "     - below certificate",
        "     - kept for",
        "     - at the bound",
    ],
    [
        "   * - cache",
        "     - what it is",
        "     - of one",
        "     - in all",
        "     - memory",
        "     - kept",
        "     - at the bound",
    ],
)
PAGE = """What is kept, and how much of it
================================

Everything that requests make the host keep is on a list: ``agtphost/vocabulary/quotas.py`` has what is durable,
``tests/vocabulary/register.py`` the tables in memory. This page has their numbers, and a test compares them. An owner
is an agent; what follows from the operator's own doing belongs to the host. Beyond a bound the call is refused with 429
and the reason given here, and nothing of it is done; where all owners together have used up what there is, with 503
``host-full``. Both say in ``kind``, ``unit`` and ``limit`` which bound it was.

Before all together reach their bound, each owner has a share, which shrinks with what is free: an eighth of the whole
where half is free, a thousandth where a tenth is. What has finished counts as free. One alone reaches its own bound all
the same; a hundred owners that take all they can leave a fourteenth free, and the first item of an owner needs room
alone. What an owner has stays: nothing is evicted to make room for another owner. Stored answers follow the same
rule.

Where one agent causes items that belong to another, as with notifications, the agent that causes them has such a share
too.

Items of a collection and work of a queue are shared in the same way. One agent has at most ``max_share`` of
what the others
leave free of ``max_items``, a half unless the collection says otherwise; all agents of one owner together have what
two of them could take one after the other, three quarters. Each agent may have one item as long as there is any room.
An item counts for the agent that entered it, also after it changes its owner. Beyond that a call is 429
``owner-share-used``.
By PULL one agent holds at most the same part of the items that no other agent holds, and always one; the answer
then has ``left_for_others``. A single worker gets through all of a queue, part after part.

What one request costs
----------------------

Each request counts as one call of its caller's rate (``[limits] requests_per_minute``), and so does each call that it
makes inside the host: of a BATCH, a CHAIN, RUN, a recipe, a batch of inputs of a card, a function's ``invoke``, and
of a workflow that runs in the background, whose steps count whether or not they are left out. A request that
says how many
calls it makes pays for all of them before the first one. Where fewer are left it is refused, and nothing of it is
done: 429 ``rate-limited`` with ``Retry-After``, ``cost`` and ``left``. One request makes at most 1,000 calls in all,
ten deep; a BATCH or a batch of a card has no batch and no RUN among its calls: 422 ``invocation-too-deep``.

One call pays for 6,000 octets of what is stored: its record, the records of interim messages, state items, and the
stored answer of a keyed request. Pages that the store fills for them are counted, so that the database's file grows
by less than 8,000 octets for each call. A call that does nothing but store items, such as IMPORT, REGISTER or NOTIFY
to a group, is refused where it costs more than is left: 429 with ``cost``. All other work is owed, and the
next request waits until it is paid. With 600,000 requests a minute, which is the default, this is not
noticeable; a host that
sets 60 takes an IMPORT of 40 short rows immediately, and not one of 500.

The last head of an HTTP connection, of at most 2,048 octets and with its ``Authorization``, is compared with the next
one and ends with the connection; it is not on the list either. Answers that wait for a slow reader are not on the list,
for they end with their connection. A peer that has
taken nothing for
``write_timeout`` is cut. Where more than 1 MiB of an answer waits for it, it has to take 64 KiB in 5 seconds; where
more than 2 MiB do, something in each second. So one that reads nothing has 2 MiB at the most after one to two seconds,
and what counts is what its system acknowledges, so that a slow reader of a large answer gets all of it. Answers of more
than 1 MiB have 40 MiB for all peers of a listener, everything that waits 128 MiB.

Neither are large bodies and computations that wait for their turn: they end with their calls. Of bodies of more than
16 KiB 16 MiB of one caller wait and 32 MiB of all, for 30 seconds; of computations 128 of one caller and 512 of all,
whose requests have 2 and 8 MiB. A worker process has 20 MiB for its program and 128 MiB for a computation;
there are two.

State items
-----------

Durable: in the store and in memory. Octets are those of their JSON. *Below certificate* is how many items an owner may
have where the call that adds one comes from a caller that is not proven by its certificate; nothing goes for its sake.

.. list-table::
   :header-rows: 1

{held}

Stored answers of keyed requests
--------------------------------

Requests with an ``Idempotency-Key``: {keys} keys and {octets} MiB of answers an agent, for {hours} hours
(``[limits] keyed_requests_per_agent``, ``keyed_octets_per_agent``); {few} keys and {little} MiB for a caller below
certificate assurance. All agents together have {keys_in_all} keys and {octets_in_all} MiB (``keyed_requests_in_all``,
``keyed_octets_in_all``), in shares as above. Beyond either a new key is refused: 429 ``idempotency-quota``, with
``Retry-After``, and nothing is done; a key that was acknowledged is answered for its {hours} hours, whatever comes
meanwhile. Of an answer longer than {longest} KiB, or one that does not fit, the hash is kept; its repeat is
answered 409 ``idempotency-result-not-kept``. Answers stay in the database and are read when a key is repeated.
Where the host follows a clock that went far ahead, or starts long after its newest record, they are kept for as much
longer as that was, for another day: :doc:`operations`, "The clock".

Caches
------

In memory, and lost without harm. *Of one* is the share of one agent or address.

.. list-table::
   :header-rows: 1

{caches}
"""


def page() -> str:
    """The page."""
    every = rows()
    held, caches = every[: 7 * len(ITEM_KINDS)], every[7 * len(ITEM_KINDS) :]
    return PAGE.format(
        held="\n".join([*HEADS[0], *held]),
        caches="\n".join([*HEADS[1], *caches]),
        keys=f"{ANSWERS.keys:,}",
        octets=ANSWERS.octets >> 20,
        keys_in_all=f"{ANSWERS.keys_in_all:,}",
        octets_in_all=ANSWERS.octets_in_all >> 20,
        hours=ANSWERS.lives // 3600,
        few=f"{ANSWERS.unproven_keys:,}",
        little=ANSWERS.unproven_octets >> 20,
        longest=ANSWERS.longest >> 10,
    )


if __name__ == "__main__":
    (Path(__file__).resolve().parents[2] / "docs" / "limits.rst").write_text(page())
