"""A provisioned deployment, the command runner, and a small AGTP server to talk to."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agtphost.cli.root import agtp
from agtphost.identity.provisioning import provision_development
from tests.cli.server import AgtpServer

Run = Callable[..., Result]


@pytest.fixture(scope="session")
def provisioned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state directory as the development profile's first start leaves it; read only."""
    state = tmp_path_factory.mktemp("provisioned") / "state"
    description = state.parent / "librarian.agent.json"
    description.write_text('{"name": "librarian", "description": "Answers.", "scopes_accepted": ["documents:query"]}')
    provision_development(state, server_id="localhost", hosted=[description])
    return state


@pytest.fixture
def folder(provisioned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A deployment's directory, in which the test runs; its host.toml names a port where nobody listens."""
    shutil.copytree(provisioned, tmp_path / "state")
    (tmp_path / "host.toml").write_text(
        '[host]\nserver_id = "localhost"\nprofile = "development"\n[listen]\nport = 1\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("AGTPHOST_STATE_DIR", raising=False)
    return tmp_path


@pytest.fixture
def run() -> Run:
    """Runs ``agtp`` with the words given."""

    def invoke(*words: str, input: str | bytes | None = None) -> Result:
        return CliRunner().invoke(agtp, [str(word) for word in words], input=input, prog_name="agtp")

    return invoke


@pytest.fixture
def server(folder: Path) -> Iterator[AgtpServer]:
    """A server with the deployment's keys; host.toml names its port."""
    with AgtpServer(folder / "state") as running:
        path = folder / "host.toml"
        path.write_text(path.read_text().replace("port = 1\n", f"port = {running.port}\n"))
        yield running
