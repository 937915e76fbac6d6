"""``docs/`` becomes a site: without a warning, with search, and with every page and public name in it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from zope.interface.interface import InterfaceClass

import agtphost
import agtphost.client
import agtphost.testing
from agtphost import iagtp
from tests import forking
from tests.programmes import length
from tests.system.up_host import module

ROOT = Path(__file__).resolve().parents[2]


def build(source: Path, target: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """The documented command, forked, with other directories, and with options."""
    command = module("sphinx", "-W", "--keep-going", "-q", "-b", "html", *options)
    return forking.run([*command, "-d", target / "doctrees", source, target / "html"], cwd=ROOT, timeout=300)


pytestmark = pytest.mark.release


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    The built site.

    The theme takes a third of the time, as it draws the whole navigation anew for each page: in the ordinary run only
    the small site of the control has it, and this one the theme that it is based on.
    """
    target = tmp_path_factory.mktemp("site")
    done = build(ROOT / "docs", target, *length(("-D", "html_theme=basic"), ()))
    assert done.returncode == 0, done.stdout + done.stderr
    return target / "html"


@pytest.mark.programme
@pytest.mark.slow
def test_every_page_is_in_the_site(site: Path) -> None:
    """One page of HTML for each text, and an index for the search that knows a word of each."""
    pages = {str(page.relative_to(ROOT / "docs").with_suffix("")) for page in (ROOT / "docs").rglob("*.rst")}
    pages = {page for page in pages if not page.startswith("changes/")}
    assert {page for page in pages if not (site / f"{page}.html").is_file()} == set()
    index = (site / "searchindex.js").read_text()
    found = json.loads(index[index.index("{") : index.rindex("}") + 1])
    assert set(found["docnames"]) == pages
    assert {"idempot", "checkpoint"} <= set(found["terms"])


@pytest.mark.slow
def test_the_public_names_are_in_the_reference(site: Path) -> None:
    """Of the package, the client, the testing helper and the interfaces."""
    text = (site / "api.html").read_text()
    names = [f"agtphost.{name}" for name in agtphost.__all__ if name != "__version__"]
    names += [f"agtphost.client.{name}" for name in agtphost.client.__all__]
    names += [f"agtphost.iagtp.{name}" for name, each in vars(iagtp).items() if isinstance(each, InterfaceClass)]
    names.remove("agtphost.iagtp.Interface")
    names += ["agtphost.client.sync.Client.call", "agtphost.iagtp.IGate.check", "agtphost.iagtp.ILedger.healthy"]
    names += [f"agtphost.testing.{name}" for name in agtphost.testing.__all__]
    missing = [name for name in names if f'id="{name}"' not in text and f'id="module-{name}"' not in text]
    assert missing == []


@pytest.mark.slow
def test_a_warning_fails_the_build(tmp_path: Path) -> None:
    """The control: a page that nothing leads to, with a reference to nowhere."""
    source = tmp_path / "docs"
    source.mkdir()
    (source / "conf.py").write_text((ROOT / "docs" / "conf.py").read_text())
    (source / "interfaces.py").write_text((ROOT / "docs" / "interfaces.py").read_text())
    (source / "index.rst").write_text("Index\n=====\n")
    (source / "lost.rst").write_text("Lost\n====\n\n:doc:`nowhere`\n")
    done = build(source, tmp_path)
    assert done.returncode == 1
    assert "nowhere" in done.stderr and "toctree" in done.stderr
    assert "furo" in (tmp_path / "html" / "index.html").read_text()
