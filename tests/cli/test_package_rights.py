"""An agent of a package: no command issues its document again, and the refusal says what does help."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agtphost.cli.agent.restatement import restate
from agtphost.cli.failures import WrongInput
from agtphost.cli.host_config import AGENT_FILES, load_usable_config
from tests.cli.conftest import Run
from tests.cli.test_identity_commands import packed


def test_scopes_of_a_packaged_agent_are_those_of_its_manifest(run: Run, folder: Path) -> None:
    """It named the host's own machine as the place to run the command on, although that was here."""
    issued = json.loads(run("agent", "new", "desk", "--package", str(packed(folder)), "--json").stdout)
    config = load_usable_config(folder / "host.toml", *AGENT_FILES)
    with pytest.raises(WrongInput) as refused:
        restate(config, {"agent_id": issued["agent_id"], "label": "desk"}, ["documents:query"])
    said = f"{refused.value} {refused.value.remedy}"
    assert "whose manifest states its scopes" in said and "agtp agent create desk-2 --package FILE" in said
    with pytest.raises(WrongInput, match="the files of other are not here"):
        restate(config, {"agent_id": "ab" * 32, "label": "other"}, ["documents:query"])
