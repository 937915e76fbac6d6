"""A development host without further settings: the registrar approves calls, and a held call says why it is held."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.system.bridging import fixture
from tests.system.hosting import Host, running, sample

HELD = 5
"""The exit status of a call that waits for a person."""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """Calls of what cannot be undone are approved, and no operator is listed."""
    config = sample(
        tmp_path_factory.mktemp("approved"), append="\n[approvals]\nirreversible = true\n" + fixture("bare")
    )
    with running(config) as host:
        yield host


def waiting(host: Host, *words: str) -> tuple[str, str]:
    """The approval that a call waits for, and what its caller was told."""
    done = host.agtp("tools", "call", *words)
    assert done.returncode == HELD, done.stderr
    listed = host.agtp_json("approvals", "ls")
    return str(listed[0]["approval_id"]), done.stderr


def test_the_registrar_approves_where_no_operator_is_listed(host: Host) -> None:
    """As it reloads and grants; the caller itself does not, and ``check`` finds nothing to say."""
    approval, told = waiting(host, "files.delete_note", "name=none")
    assert "does not say" not in told, "the server calls it destructive"
    assert host.agtp("approvals", "approve", approval, "--as", "demo").returncode == 1
    done = host.agtp("approvals", "approve", approval)
    assert done.returncode == 0, done.stderr
    assert host.agtp("tools", "call", "files.delete_note", "name=none").returncode != HELD
    assert not [note for note in host.agtp_json("check", "--json")["notes"] if "[approvals]" in note]


def test_a_held_call_of_a_tool_without_annotations_says_why(host: Host) -> None:
    """What is not said counts as irreversible; the line that says otherwise is named, and the reason is no secret."""
    _, told = waiting(host, "bare.test_simple_text")
    assert 'impact = "reversible"' in told and "[mcp.server.tools.test_simple_text]" in told
