"""``agtp registry`` of a host that has none, and of one that lacks what is named."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Run
from tests.cli.server import AgtpServer


def test_a_host_without_registry_is_told_from_an_unknown_card(run: Run, server: AgtpServer) -> None:
    """The path of the lists is there with ``[registry]`` alone; another list is no advice where there is none."""
    Path("card.json").write_text('{"name": "Translator"}')
    for words in (("ls",), ("search", "land the PR"), ("add", "card.json")):
        result = run("registry", *words)
        assert result.exit_code == 1 and "has a registry: [registry] in its host.toml" in result.stderr, result.output
        assert "agtp registry ls" not in result.stderr
    assert "agtp registry ls" in run("registry", "get", "translator-001").stderr
    assert server.seen
