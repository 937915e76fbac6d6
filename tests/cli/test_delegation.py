"""agtp delegation: tokens made and shown."""

from __future__ import annotations

import json
from pathlib import Path

from agtphost.identity.keys import SigningKey
from tests.cli.conftest import Run

ME, OTHER = "a" * 64, "b" * 64


def words(key: Path) -> list[str]:
    return [
        *("delegation", "issue", "--key", str(key), "--from", ME, "--to", OTHER),
        *("--scope", "documents:query", "--task-id", "t-1"),
    ]


def test_a_token_is_issued_and_shown(run: Run, tmp_path: Path) -> None:
    """What is issued verifies with the public half of the key, and with no other: 0 and 4."""
    key = SigningKey.generate()
    key.save(tmp_path / "me.key")
    key.public.save(tmp_path / "me.pub")
    SigningKey.generate().public.save(tmp_path / "other.pub")
    issued = run(*words(tmp_path / "me.key"))
    assert issued.exit_code == 0, issued.output
    token = issued.stdout.strip()
    shown = run("delegation", "show", "-", "--key", str(tmp_path / "me.pub"), "--json", input=token)
    assert shown.exit_code == 0, shown.output
    fields = json.loads(shown.stdout)
    assert (fields["verified"], fields["delegatee"], fields["scope"]) == (True, OTHER, ["documents:query"])
    assert "not checked" in run("delegation", "show", "-", input=token).stdout
    assert json.loads(run("delegation", "show", token, "--json").stdout)["token_id"] == fields["token_id"]
    other = token[:-2] + ("BA" if token.endswith("AA") else "AA")
    assert run("delegation", "show", other, "--key", str(tmp_path / "me.pub")).exit_code == 4
    assert run("delegation", "show", "-", "--key", str(tmp_path / "other.pub"), input=token).exit_code == 4
    assert run("delegation", "show", "-", input="nonsense").exit_code == 4


def test_a_second_hop_names_the_first(run: Run, tmp_path: Path) -> None:
    """--parent and --depth make the token of a later hop; one without the other is wrong usage: 2."""
    SigningKey.generate().save(tmp_path / "me.key")
    later = [*words(tmp_path / "me.key"), "--depth", "2"]
    assert run(*later).exit_code == 2
    done = run(*later, "--parent", "c" * 64, "--json")
    assert json.loads(done.stdout)["parent"] == "c" * 64
