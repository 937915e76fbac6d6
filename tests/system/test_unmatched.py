"""What a name in the configuration protects is checked to exist (issue 11, item 17)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.system.hosting import agtp, running, sample, until

TYPO = """
[mcp.server.tools.list_fils]
enabled = false
"""

STRANGERS = """
[audit]
operators = ["%s"]
[policies.zones]
"zone:nowhere" = ["zone:elsewhere"]
[policies.methods]
disallow = ["FROBNICATE"]
""" % ("ab" * 32)

STRICT = ("timeout = 30", 'timeout = 30\nunmatched_rules = "off"')


@pytest.mark.parametrize("strict", [False, True])
def test_a_typo_in_a_rule_is_told_and_closes_where_it_has_to(tmp_path: Path, strict: bool) -> None:
    """In the log, in ``upstreams ls``; where rules must match, nothing of the server can be called."""
    config = sample(tmp_path, edit=[STRICT] if strict else [], append=TYPO)
    with running(config) as host:
        sentence = "rules for 'list_fils' of files, and no tool there has that name (did you mean 'list_files'?)"
        until(lambda: sentence in host.output, 30)
        assert ("its tools are off until that is mended" in host.output) is strict
        assert ("0 tools)" in host.output) is strict
        asked = host.agtp("tools", "call", "files.list_files", "--as", "demo")
        assert ("tool-rules-unmatched" in asked.stdout + asked.stderr) is strict, asked.stdout + asked.stderr


@pytest.mark.parametrize("strict", [False, True])
def test_check_asks_the_servers(tmp_path: Path, strict: bool) -> None:
    """Before a start: a note, or an error with what to do; a rule that fits is neither."""
    config = sample(tmp_path, edit=[STRICT] if strict else [], append=TYPO)
    done = agtp("check", str(config), "--ask")
    assert done.returncode == (2 if strict else 0), done.stderr
    assert "did you mean 'list_files'?" in done.stderr
    config.write_text(config.read_text().replace("list_fils", "list_files"))
    done = agtp("check", str(config), "--ask")
    assert done.returncode == 0, done.stderr
    assert "did you mean" not in done.stderr


def test_strangers_are_told(tmp_path: Path) -> None:
    """Zones, methods and operators that nothing here has; without them there is no such note."""
    config = sample(tmp_path)
    assert "no certificate below" not in agtp("check", str(config)).stderr
    config.write_text(config.read_text() + STRANGERS)
    said = agtp("check", str(config))
    for pattern in ("no certificate below", "zone:nowhere", "zone:elsewhere", "FROBNICATE"):
        assert re.search(pattern, said.stderr), said.stderr
