"""``REQUIREMENTS.tsv`` has every requirement with its words, and what it names as shown is there and runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.requirements import COUNTS, TABLE, Row, every_id, faults, not_run, table

GOOD = "AGTP-001\tMUST\tIt is so.\ttests/test_requirements.py::test_a_broken_table_is_noticed"


def test_the_table_has_every_requirement_and_what_it_names_exists() -> None:
    """All 700, once each and in order, well formed, every test there."""
    assert sum(COUNTS.values()) == 700
    assert faults(TABLE.read_text()) == []


def test_nearly_all_of_the_core_and_the_api_are_shown() -> None:
    """What is for later are single lines there, each with its reason."""
    later = [row.id for row in table() if not row.tests and row.id.startswith(("AGTP-", "API-"))]
    assert len(later) <= 10


def test_a_broken_table_is_noticed() -> None:
    """The control: each fault that a table can have."""
    test = GOOD.rpartition("\t")[2]
    one = ["AGTP-001"]
    assert faults(GOOD, one) == []
    assert faults(f"{GOOD}; later: the rest of it is to come", one) == []
    assert faults(f"{GOOD}\n{GOOD}", one) == ["AGTP-001: stands twice"]
    assert faults(f"{GOOD}d", one) == [f"AGTP-001: {test}d does not exist"]
    assert faults(GOOD.replace(test, "tests/test_nothing.py::test_x"), one) == [
        "AGTP-001: tests/test_nothing.py::test_x does not exist"
    ]
    assert faults(GOOD.replace(test, "later: soon"), one) == ["AGTP-001: 'later: soon' gives no reason"]
    assert faults(GOOD.replace("MUST", "PERHAPS"), one) == ["AGTP-001: PERHAPS is no strength"]
    assert faults(GOOD, ["AGTP-001", "AGTP-002"]) == ["AGTP-002: missing"]
    assert faults(GOOD, ["AGTP-002"]) == ["AGTP-001: no draft has that requirement", "AGTP-002: missing"]
    assert faults("AGTP-001\tlater", []) == ["line 1: not ID, strength, text, how it is shown, with tabs between"]
    other = GOOD.replace("AGTP-001", "AGTP-002")
    assert faults(f"{other}\n{GOOD}", ["AGTP-001", "AGTP-002"]) == ["the rows are not in the order of the drafts"]
    assert len(set(every_id())) == 700


def test_a_test_that_did_not_run_is_noticed() -> None:
    """Parameters and classes do not matter; a test that was skipped is none that passed."""
    row = Row(
        id="AGTP-001", strength="MUST", text="It is so.", shown="tests/test_a.py::test_one, tests/test_a.py::test_two"
    )
    ran = ["tests/test_a.py::test_one[x-1]", "tests/test_a.py::TestThat::test_two"]
    assert not_run(ran, [row]) == []
    assert not_run(ran[:1], [row]) == ["AGTP-001 relies on tests/test_a.py::test_two, which did not run"]


def test_a_whole_run_fails_where_a_test_that_is_relied_on_is_skipped(tmp_path: Path) -> None:
    """The hooks, in a run of their own: nothing failed, and the exit status is 1 all the same."""
    folder = tmp_path / "suite"
    folder.mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = suite\n")
    (folder / "conftest.py").write_text(
        "import tests.requirements as requirements\n"
        "requirements.table = lambda: [requirements.Row(id='AGTP-001', strength='MUST', text='It is so.',"
        " shown='suite/test_it.py::test_it')]\n"
        "from tests.requirements import pytest_runtest_logreport, pytest_sessionfinish\n"
    )
    file = folder / "test_it.py"
    environ = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).resolve().parents[1]),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    for marks, status in (("", 0), ("@pytest.mark.skip\n", 1)):
        file.write_text(f"import pytest\n\n{marks}def test_it(): pass\n\ndef test_other(): pass\n")
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--import-mode=importlib"]
        done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=100)
        assert done.returncode == status, done.stdout + done.stderr
        assert ("AGTP-001 relies on" in done.stdout) is bool(status)
