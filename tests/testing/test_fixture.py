"""The pytest fixture of the wheel, and the example of docs/testing.rst in a project of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.supply.compiled import lend_compiled
from tests.supply.test_supply import copy
from tests.system.up_host import without_others

ROOT = Path(__file__).resolve().parent.parent.parent

HEAVY = ("twisted", "OpenSSL", "cryptography", "pydantic", "jsonschema_rs", "re2", "zope.interface", "agtphost.host")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a wheel of this checkout puts into site-packages, entry points included."""
    checkout, target = copy(tmp_path_factory.mktemp("checkout")), tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(checkout / "dist")]
    subprocess.run(command, cwd=checkout, check=True, capture_output=True)
    (built,) = (checkout / "dist").glob("*.whl")
    zipfile.ZipFile(built).extractall(target)
    lend_compiled(target)
    return target


def run(site: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a project that has agtphost from its wheel, without the plugins of this environment."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *without_others(), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(site), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def files_of(page: str) -> dict[str, str]:
    """The example's files: each block whose introduction ends in its name."""
    return {
        found[1]: "\n".join(line[4:] for line in found[2].splitlines()).strip() + "\n"
        for found in re.finditer(r", ``([\w/]+\.(?:py|toml))``::\n\n((?:(?: {4}.*)?\n)+)", page)
    }


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The example of the page."""
    files = files_of((ROOT / "docs" / "testing.rst").read_text())
    assert sorted(files) == ["endpoints/orders.toml", "handlers/orders.py", "test_orders.py"]
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    return tmp_path


@pytest.mark.release
@pytest.mark.slow
def test_the_pages_example_passes(site: Path, project: Path) -> None:
    """As it stands in docs/testing.rst, in a pytest run of its own: the fixture comes with the wheel."""
    ran = run(site, project, "-q")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "4 passed" in ran.stdout


@pytest.mark.release
@pytest.mark.slow
def test_the_example_tests_something(site: Path, project: Path) -> None:
    """The control: a handler that forgets whose order it is, and an endpoint without its scope, fail it."""
    handler, endpoint = project / "handlers" / "orders.py", project / "endpoints" / "orders.toml"
    handler.write_text(handler.read_text().replace(' or order["customer"] != context.caller.name', ""))
    endpoint.write_text(endpoint.read_text().replace('required_scopes = ["orders:read"]\n', ""))
    ran = run(site, project, "-q")
    assert ran.returncode == 1
    assert "2 failed, 2 passed" in ran.stdout, ran.stdout


@pytest.mark.slow
def test_a_project_without_agents_does_not_notice(site: Path, tmp_path: Path) -> None:
    """Where the fixture is not used nothing heavy is imported, and ``-p no:agtphost`` leaves even the fixture out."""
    (tmp_path / "test_nothing.py").write_text(
        "import sys\n\n"
        "def test_nothing():\n"
        "    assert 'agtphost.testing.plugin' in sys.modules\n"
        f"    assert not [name for name in {HEAVY!r} if name in sys.modules]\n"
    )
    ran = run(site, tmp_path, "-q")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (tmp_path / "test_nothing.py").write_text("def test_without(agtp_host):\n    pass\n")
    assert "fixture 'agtp_host' not found" in run(site, tmp_path, "-q", "-p", "no:agtphost").stdout
