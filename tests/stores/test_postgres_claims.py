"""Keyed requests whose COMMIT is in doubt: the store is asked whether they are claimed, so that none stays in doubt."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from agtphost.audit.drafts import ReservationKey, ReservationState
from agtphost.audit.writer import Claim, GroupWriter
from agtphost.stores import StoreError
from tests import postgres
from tests.audit.drafting import BOB, draft, group_writer, sealed
from tests.stores.postgres_proxy import Proxy
from tests.stores.test_postgres import opened
from tests.stores.test_postgres_failures import check, is_commit, through
from tests.stores.test_postgres_failures import proxy as proxy
from tests.stores.test_postgres_failures import url as url

pytestmark = postgres.needed


def claim(writer: GroupWriter, *keys: str) -> list[Any]:
    """Claim keys in one group, and return the state of each."""
    claims = [Claim(ReservationKey(agent_id=BOB, key=key), b"d") for key in keys]
    writer.write(claims)
    return [each.outcome.state for each in claims]  # type: ignore[union-attr]


def cut(proxy: Proxy, how: str) -> None:
    """Cut the connection at the next COMMIT."""
    once = iter([how])
    proxy.cut = lambda octets: next(once, "") if is_commit(octets) else ""


@pytest.mark.parametrize("how", ["answered", "drop"])
def test_a_claim_whose_answer_is_lost_is_made(url: str, proxy: Proxy, how: str) -> None:
    """The request runs, as where the answer arrives; the next one reads what another program may have written."""
    moves: list[Any] = []
    with closing(opened(through(url, proxy))) as store:
        writer = group_writer(store, moved=lambda *found: moves.append(found))
        (first,) = sealed(writer, draft())
        cut(proxy, how)
        assert claim(writer, "k", "l") == [ReservationState.NEW] * 2
        assert proxy.cuts == 1 and not moves
        assert claim(writer, "k") == [ReservationState.RUNNING]
        assert len(moves) == 1
    check(url, [first.audit_id])


def test_a_claim_that_is_not_stored_stays_away(url: str, proxy: Proxy) -> None:
    """Its message arrives after the answer, and changes nothing; the same key is new afterwards."""
    with closing(opened(through(url, proxy))) as store:
        writer = group_writer(store)
        sealed(writer, draft())
        cut(proxy, "late")
        with pytest.raises(StoreError):
            claim(writer, "k")
        proxy.release.set()
        writer.recover()
        assert claim(writer, "k") == [ReservationState.NEW]


def test_another_hosts_claim_of_the_same_key_does_not_count(
    url: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has another time, or another digest, and its request runs there."""
    with closing(opened(through(url, proxy))) as store:
        writer = group_writer(store)
        sealed(writer, draft())
        cut(proxy, "answered")
        reserved = "UPDATE reservation SET reserved_at = reserved_at + 1"
        reopen = store.reopen
        monkeypatch.setattr(store, "reopen", lambda: (reopen(), postgres.server().run(reserved, url=url)))
        with pytest.raises(StoreError):
            claim(writer, "k")
        monkeypatch.undo()
        writer.recover()
        assert claim(writer, "k") == [ReservationState.IN_DOUBT]
