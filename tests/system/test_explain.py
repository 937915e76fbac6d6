"""explain and can against a real host: asked by the issuer, the agent itself, and those who may not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.system.hosting import Host, running, sample


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """The sample host."""
    with running(sample(tmp_path_factory.mktemp("explain"))) as started:
        yield started


def test_a_refused_call_is_explained(host: Host) -> None:
    """Who, what, how surely, why, the proof, and the same gates' word of today."""
    refused = host.agtp("call", host.uri, "CANCEL", "/nowhere", "--json")
    assert refused.returncode == 1
    audit_id = host.agtp_json("audit", "walk", "host", "-n", "1")[0]["audit_id"]
    told = host.agtp("explain", audit_id)
    assert told.returncode == 0, told.stderr
    proof = "hash and signature of the record hold"
    for part in ("called CANCEL /nowhere", "404 Not Found", "not-found", proof, "today"):
        assert part in told.stdout, told.stdout
    story = host.agtp_json("explain", audit_id)
    assert story["verified"] is True and story["today"]["refusal"]["reason"] == "not-found"


def test_can(host: Host) -> None:
    """Yes is 0, no is 1 and names gate and remedy; nothing was called meanwhile."""
    assert host.agtp("can", "demo", "DISCOVER", "/methods").returncode == 0
    no = host.agtp("can", "demo", "EXECUTE", "/", "--scope", "documents:query", "action=files.list_files")
    assert no.returncode == 1 and "gate" in no.stdout and "remedy" in no.stdout
    stranger = host.agtp_json("can", "anyone", "DISCOVER", "/methods")
    assert stranger["allowed"] is True and stranger["assurance"] == "none"


@pytest.mark.parametrize(
    ("options", "status"),
    [(("--as", "demo"), 0), (("--no-cert",), 1)],
)
def test_who_may_ask(host: Host, options: tuple[str, ...], status: int) -> None:
    """An agent about itself; a stranger about nobody."""
    asked = host.agtp("can", "demo", "DISCOVER", "/methods", *options)
    assert asked.returncode == status, asked.stdout + asked.stderr


def test_another_agent_may_not_ask(host: Host) -> None:
    """403 for one without inspect:all (T-AU: what others may do is not public)."""
    librarian = host.state / "hosted" / "librarian" / "document.json"
    assert librarian.is_file()
    asked = host.agtp("can", "librarian", "DISCOVER", "/methods", "--as", "demo", "--json")
    assert asked.returncode == 1 and "acl-not-permitted" in asked.stdout
