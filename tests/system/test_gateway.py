"""The HTTP gateway of a running host: what its clients call, who they are, and what they are told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.system.gateways import ask, with_gateway
from tests.system.hosting import Host, running


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, int]]:
    """The sample host with a gateway."""
    config, port = with_gateway(tmp_path_factory.mktemp("gateway"))
    with running(config) as host:
        yield host, port


def test_a_call_is_answered_with_its_signed_record(served: tuple[Host, int]) -> None:
    host, port = served
    found = ask(port, "ECHO", "/text", {"text": "hello"}, Task_ID="task-1")
    assert (found.status, found.fields["AGTP-Status"]) == (200, "200 OK")
    assert found.value["result"]["text"] == "hello"
    assert found.fields["Task-ID"] == "task-1" and found.fields["Attribution-Record"]
    kept = host.agtp("audit", "get", found.fields["Audit-ID"], "--json")
    assert kept.returncode == 0, kept.stdout + kept.stderr


def test_who_shows_nothing_is_refused_before_anything_is_called(served: tuple[Host, int]) -> None:
    _, port = served
    found = ask(port, "ECHO", "/text", {"text": "hello"}, token=None)
    assert (found.status, found.fields["AGTP-Status"]) == (401, "401 Unauthorized")
    assert found.fields["WWW-Authenticate"] == "Bearer" and "Attribution-Record" not in found.fields
    assert found.value["reason"] == "agent-unauthenticated"
