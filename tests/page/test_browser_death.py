"""Where Chromium dies, as it does now and then on a busy machine: one test is asked once more, and all others go on."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests import forking
from tests.page.windows import find_programs

RUN = """
import sys
import pytest

words = ["--disable-plugin-autoload", "-p", "tests.page.conftest", "-p", "no:cacheprovider", "--rootdir", ".", "-v"]
sys.exit(pytest.main([*words, "dying.py"]))
"""

DYING = """
import os
import signal
from pathlib import Path

import pytest

from tests.page.windows import chromium

begun = []


def times(what):
    with open(what, "a") as file:
        file.write("x")
    return Path(what).stat().st_size


@pytest.fixture
def browser(window):
    window.beginning(lambda: begun.append(window.driver))
    return window


@pytest.mark.parametrize("kind", ["renderer", "browser"])
def test_it_dies_once(browser, windows, tmp_path, kind):
    assert not list(tmp_path.iterdir())
    (tmp_path / "was here").touch()
    if times(kind) == 1:
        for process in windows.ask("SystemInfo.getProcessInfo")["processInfo"]:
            if process["type"] == kind:
                os.kill(process["id"], signal.SIGKILL)
    browser.open("about:blank")
    assert browser.text == "" and browser.all("html")


def test_the_next_one(browser):
    assert begun[-1] == browser.driver and len(begun) == 3
    browser.open("about:blank")


def test_that_fails_by_itself(browser):
    assert times("failed") == 2
"""


@pytest.mark.release
def test_a_death_is_of_one_test_alone(tmp_path: Path) -> None:
    """
    Of a document's process, and of all of it: the test passes when it is asked again, and the run says why it was.

    The control is a test that fails while the browser lives: it is asked once.
    """
    find_programs()
    (tmp_path / "run.py").write_text(RUN)
    (tmp_path / "dying.py").write_text(DYING)
    done = forking.run([sys.executable, str(tmp_path / "run.py")], cwd=tmp_path, timeout=240)
    told = done.stdout + done.stderr
    assert "1 failed, 3 passed" in told and "FAILED dying.py::test_that_fails_by_itself" in told, told
    again = re.findall(r"Chromium died in dying.py::(\S+), which is asked once more: (tab crashed|\S+)", told)
    assert again == [("test_it_dies_once[renderer]", "tab crashed"), ("test_it_dies_once[browser]", "invalid")], told
    assert (tmp_path / "failed").read_text() == "x", told
