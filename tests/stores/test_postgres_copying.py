"""Reading all rows of a store in a database: no host has it meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agtphost.stores import StoreError
from agtphost.stores.lease import STANDBY, HostProcess
from agtphost.stores.postgres import copying
from tests import postgres
from tests.stores.test_postgres import place_of
from tests.stores.test_postgres_lease import host, lease_of

pytestmark = postgres.needed


@pytest.mark.parametrize("serves", [True, False])
def test_a_host_that_starts_before_the_rows_are_read_keeps_them_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serves: bool
) -> None:
    """While records that are not indexed yet are, which takes long in a large store, no lock keeps hosts away."""
    server = postgres.server()
    url = server.url(server.schema(tmp_path))
    place = place_of(url)
    place.create("agtp.test")
    lease = lease_of(url, host("a"))
    fill = copying.fill_index

    def fill_while_a_host_starts(session: Any) -> None:
        if serves:
            assert lease.take()
        else:
            lease.report(HostProcess(id="1", name="a", place="m:/state", version="1", state=STANDBY, settings={}))
        fill(session)

    with place.read_tables() as read:
        assert list(read("record")) == []
        if serves:
            # From then on no host can take the lease.
            with pytest.raises(StoreError, match="waited too long"):
                lease.take()
    monkeypatch.setattr(copying, "fill_index", fill_while_a_host_starts)
    with pytest.raises(StoreError, match="is in use by a"), place.read_tables():
        pass
    lease.give_up()
