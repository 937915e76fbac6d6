"""``agtp registry --registry URL`` at a registry that was written from HAIDIP alone, and agents called directly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agtphost.cli.root import agtp
from tests.registry.draft_client import DraftClient, DraftError
from tests.registry.draft_registry import KEY, DraftRegistry, serving

HELLO = ("text=Hello", "source_language=en", "target_language=fr")


@pytest.fixture(scope="module")
def registry() -> Iterator[DraftRegistry]:
    with serving() as running:
        yield running


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "key"
    file.write_text(KEY + "\n")
    return file


def run(*words: object) -> Result:
    return CliRunner().invoke(agtp, ["registry", *map(str, words)], prog_name="agtp")


def answered(*words: object) -> Any:
    done = run(*words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_what_a_foreign_registry_has(registry: DraftRegistry) -> None:
    """Lists, searches and cards, with scores, and what a card claims told as a claim."""
    at = ("--registry", registry.url)
    assert [each["id"] for each in answered("ls", *at)] == ["translator-001", "spanish-gpt"]
    listed = run("ls", *at).stdout.splitlines()
    assert listed[0].split() == ["ID", "NAME", "STATE", "VERIFIED", "QUALITY", "DESCRIPTION"]
    assert "says so" in listed[1] and "4.8" in listed[1]
    assert [each["score"] for each in answered("search", "translate to Spanish", *at)] == [0.93, 0.89]
    assert registry.asked[-1][2]["query"] == "translate to Spanish"
    assert len(answered("search", "translate", "--top", 1, *at)) == 1
    assert answered("get", "translator-001", *at) == registry.cards["translator-001"]
    shown = run("get", "translator-001", *at).stdout
    assert "takes  text source_language target_language" in shown


def test_a_foreign_agent_is_called(registry: DraftRegistry, token: Path) -> None:
    """By way of its registry, or directly at the address of its card; with a key, and with the reason where not."""
    at = ("--registry", registry.url)
    for way in ((), ("--direct",)):
        before = len(registry.asked)
        said = answered("invoke", "translator-001", *HELLO, *way, *at, "--token-file", token)
        assert said == {"translated_text": "Bonjour, comment êtes-vous?"}
        paths = [path for _, path, _ in registry.asked[before:]]
        place = "direct" if way else "agents"
        assert paths[-1] == f"/{place}/translator-001/invoke"
    refused = run("invoke", "translator-001", *HELLO, *at)
    assert refused.exit_code == 1
    assert "401 Unauthorized: An API key is missing." in refused.stderr
    assert "--token-file FILE" in refused.stderr
    wrong = run("invoke", "translator-001", "text=Hello", *at, "--token-file", token)
    assert wrong.exit_code == 1 and "The field is target_language." in wrong.stderr


def test_what_goes_wrong_at_a_foreign_registry(registry: DraftRegistry, tmp_path: Path) -> None:
    """Each failure says what to do, and has the exit status of its kind."""
    missing = run("get", "nobody", "--registry", registry.url)
    assert (missing.exit_code, "404 NotFound" in missing.stderr) == (1, True)
    assert run("ls", "--registry", "http://agents.example.com").exit_code == 2
    assert run("ls", "--registry", "http://127.0.0.1:9").exit_code == 3
    empty = tmp_path / "empty"
    empty.touch()
    assert run("ls", "--registry", registry.url, "--token-file", empty).exit_code == 2
    elsewhere = run("invoke", "spanish-gpt", "other", "a=1", "--direct", "--registry", registry.url)
    assert elsewhere.exit_code == 3, elsewhere.output


def test_the_client_of_the_draft_meets_the_registry_of_the_draft(registry: DraftRegistry) -> None:
    """Both are of the draft alone: what they agree on is what this host is held to."""
    client = DraftClient(registry.url, KEY)
    assert [each["id"] for each in client.agents()] == [each["id"] for each in client.public()]
    assert client.search("translate")[0]["id"] == "translator-001"
    with pytest.raises(DraftError) as refused:
        client.invoke("translator-001", {"text": "Hello"})
    assert (refused.value.status, refused.value.code) == (400, "InvalidInput")
