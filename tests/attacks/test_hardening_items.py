"""Each item of a hardening has attacks that play it: what was called resolved can be attacked again by one command."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.attacks.catalogue import attacks

FIRST: Mapping[str, tuple[str, ...]] = {
    "R1 bodies of strangers": (
        "yaml-refused",
        "yaml-nesting",
        "json-tokens",
        "odd-octets-of-strangers",
        "unread-bodies",
    ),
    "R2 two hosts on one state directory": ("second-host",),
    "R3 signed refusals fill the disk": ("garbage-flood", "million-garbage", "unknown-identities"),
    "R4 schemas that cost": ("schema-one-of", "schema-pattern-properties", "schema-multiple-of"),
    "R5 assertions beyond what they are bound to": ("bound-assertion", "delegation-garbage"),
    "R6 slow strangers at HTTP listeners": ("a2a-slow-heads", "wellknown-slow-heads", "a2a-silent-tls"),
    "R7 state items and caches": (
        "full-inbox",
        "many-sessions",
        "many-suspensions",
        "many-negotiations",
        "many-claims",
    ),
    "R8 stored answers": ("many-keys", "crowded-keys", "keys-elsewhere"),
    "R9 shared servers": ("hogging-agent", "oversized-answers", "endless-answer", "server-that-does-not-read"),
    "R10 pages of records": ("large-pages", "large-inspections", "large-pages-unread"),
    "R11 callers known by header alone": ("names-of-others", "sessions-of-others", "decisions-about-others"),
    "R12 lines in the log": ("log-injection", "connections-beyond-the-limit", "bad-bearer"),
    "R13 the operator's inbox": ("noisy-owner", "operator-flood"),
    "R14 a store that went back": ("rollback", "corrupt-page"),
    "R15 a tool that changed": ("changed-tool",),
    "R16 certificates, keys, cut bodies, the bridge": (
        "key-of-another",
        "authority-of-another-zone",
        "keys-elsewhere",
        "cut-bodies",
        "bridge-without-token",
    ),
}
"""The items of the first hardening, and the attacks that play each."""

SECOND: Mapping[str, tuple[str, ...]] = {
    "1 a name in a header reads data": ("names-in-headers", "names-of-others"),
    "2 a registered card uses another provider's key": ("card-of-a-guarded-provider", "card-by-other-ways"),
    "3 tables that decide": ("changed-tables", "altered-state", "rollback"),
    "4 sessions and decisions of the agent that is named": ("sessions-of-others", "decisions-about-others"),
    "5 one request that is many calls": ("many-calls-in-one", "much-stored-for-one"),
    "6 one agent that fills what all share": ("filled-collection", "held-queue", "gifts-to-one"),
    "7 methods whose computations cost others": (
        "costly-methods",
        "expressions-of-one",
        "searches-of-one",
        "sorted-searches",
        "table-as-json",
        "dense-bodies",
    ),
    "8 the clock": ("clock-jump", "clock-jump-while-off"),
    "9 the page's door": ("wrong-page-tokens",),
    "10 addresses": ("cards-of-nowhere",),
    "11 a full disk": ("disk-below-floor", "disk-full-while-idle"),
    "12 oracles": ("identifiers-of-others", "decisions-of-others"),
}
"""The items of the second."""


@pytest.mark.parametrize("items", [FIRST, SECOND], ids=["first", "second"])
def test_each_item_has_attacks(items: Mapping[str, tuple[str, ...]]) -> None:
    """Every attack that an item names exists, and every item names one."""
    names = {attack.name for attack in attacks()}
    assert {item: set(named) - names for item, named in items.items() if not named or set(named) - names} == {}
