"""What a database lets a host see and end of another one that froze while it had the store locked."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agtphost.stores.lease import Holder
from tests import postgres
from tests.stores.test_postgres import place_of

pytestmark = postgres.needed

SAME, OTHER = "takeover_same", "takeover_other"
"""Roles without more rights than a store needs; the host that serves has the first."""

FUNCTION = "FUNCTION pg_terminate_backend(integer, bigint)"

Urls = Callable[[str], str]


@pytest.fixture
def urls(tmp_path: Path) -> Urls:
    """Provide the URL of a new store for each role."""
    server = postgres.server()
    schema = server.schema(tmp_path)
    place_of(server.url(schema)).create("agtp.test")
    for role in (SAME, OTHER):
        if not server.run(f"SELECT 1 FROM pg_roles WHERE rolname = '{role}'"):
            server.run(f"CREATE ROLE {role} LOGIN")
        rights = "SELECT, INSERT, UPDATE, DELETE"
        server.run(
            f"GRANT USAGE ON SCHEMA {schema} TO {role}", f"GRANT {rights} ON ALL TABLES IN SCHEMA {schema} TO {role}"
        )
    return lambda role: server.url(schema, user=role)


def serve(urls: Urls, role: str, name: str = "") -> closing[Any]:
    """Open a store as a host whose name no other test has, unless given: sessions of others go on, or end late."""
    place = place_of(urls(role))
    holder = Holder(name=name or f"takeover-{uuid.uuid4()}", machine="m", directory="/state", takeover_after=10)
    return closing(place.open_store(create=False, server_id="agtp.test", lease=place.lease(holder, "agtp.test")))


def find(urls: Urls, role: str) -> list[str]:
    """Return what is reported to a host with a role."""
    place = place_of(urls(role))
    found = list(place.find_takeover_risks())
    assert set(found) <= set(place.find_risks())
    return found


def test_a_host_with_another_role_is_noticed(urls: Urls) -> None:
    """As long as a host with the first role serves; its own role, a member of it, and a superuser see its sessions."""
    server = postgres.server()
    with serve(urls, SAME):
        (said,) = find(urls, OTHER)
        assert f"with the role {OTHER} and by the one that serves with {SAME}" in said and "one role in" in said
        assert find(urls, SAME) == [] and find(urls, "agtp") == []
        for grant, revoke in (
            (f"GRANT {SAME} TO {OTHER}", f"REVOKE {SAME} FROM {OTHER}"),
            (
                f"GRANT pg_signal_backend, pg_read_all_stats TO {OTHER}",
                f"REVOKE pg_signal_backend, pg_read_all_stats FROM {OTHER}",
            ),
        ):
            server.run(grant)
            assert find(urls, OTHER) == []
            server.run(revoke)
        server.run(f"GRANT pg_signal_backend TO {OTHER}")
        assert len(find(urls, OTHER)) == 1, "it may end sessions, and does not see which"
        server.run(f"REVOKE pg_signal_backend FROM {OTHER}")
    assert find(urls, OTHER) == []


@pytest.mark.parametrize("name", ["east-" + "1234567890." * 7 + "example", "füße-ost", "füße-" + "ö" * 60])
def test_a_host_is_noticed_by_a_name_that_the_database_changes(urls: Urls, name: str) -> None:
    """PostgreSQL cuts the names of applications, and replaces what is not of ASCII."""
    with serve(urls, SAME, name):
        assert len(find(urls, OTHER)) == 1
        assert find(urls, SAME) == []


def test_sessions_of_a_superuser_are_not_ended_by_others(urls: Urls) -> None:
    """Also where the role may end those of all others."""
    server = postgres.server()
    with serve(urls, "agtp"):
        server.run(f"GRANT pg_signal_backend, pg_read_all_stats TO {OTHER}")
        assert len(find(urls, OTHER)) == 1
        server.run(f"REVOKE pg_signal_backend, pg_read_all_stats FROM {OTHER}")


@pytest.mark.parametrize(
    ("change", "undo", "said"),
    [
        (
            f"ALTER ROLE {SAME} SET track_activities = off",
            f"ALTER ROLE {SAME} RESET track_activities",
            f"has track_activities off for the role {SAME}",
        ),
        (
            f"REVOKE EXECUTE ON {FUNCTION} FROM public",
            f"GRANT EXECUTE ON {FUNCTION} TO public",
            f"does not let the role {SAME} call pg_terminate_backend",
        ),
    ],
    ids=["unseen", "no right"],
)
def test_a_server_that_hides_sessions_or_lets_end_none_is_noticed(
    urls: Urls, change: str, undo: str, said: str
) -> None:
    """Whether a host serves or not."""
    assert find(urls, SAME) == []
    postgres.server().run(change)
    try:
        (found,) = find(urls, SAME)
        assert said in found and "could not be taken over from here: " in found
    finally:
        postgres.server().run(undo)


def test_a_database_without_a_store_has_no_such_risk(tmp_path: Path) -> None:
    """The question is part of ``agtp status``, which is asked there, too."""
    server = postgres.server()
    assert place_of(server.url(server.schema(tmp_path))).find_takeover_risks() == []
