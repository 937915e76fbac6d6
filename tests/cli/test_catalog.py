"""``agtp catalog`` and ``agtp-catalog-diff``: what they print, and their exit statuses."""

from __future__ import annotations

import importlib
import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agtphost.cli.catalog.commands import script
from agtphost.vocabulary.catalog import Catalog
from tests.cli.conftest import Run
from tests.contract.test_catalog_diff import document

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Catalogs before and after ECHO is removed, one that is broken, and a copy of the sample deployment."""
    old = document(ECHO={"deprecated_in": "1.1.0", "successor": "REPLY"})
    for name, content in (("old", old), ("new", document("2.0.0", ECHO=None)), ("same", document("1.1.1"))):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    (tmp_path / "broken.json").write_text('{"version": "1.0"')
    ignored = shutil.ignore_patterns("state", "__pycache__")
    shutil.copytree(ROOT / "etc", tmp_path / "deployment", ignore=ignored)
    return tmp_path


def test_show_lists_the_methods_of_a_category(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every method that the category has, and no other."""
    monkeypatch.chdir(tmp_path)
    shown = json.loads(run("catalog", "show", "--category", "creation", "--json").stdout)
    entries = Catalog.load().entries.values()
    assert [item["method"] for item in shown["methods"]] == sorted(
        entry.name for entry in entries if "creation" in entry.categories
    )
    text = run("catalog", "show", "--category", "creation")
    assert "CREATE" in text.stdout
    assert "QUERY" not in text.stdout


def test_show_tells_of_one_method(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its entry; for one that is missing exit 1 and the close ones."""
    monkeypatch.chdir(tmp_path)
    assert json.loads(run("catalog", "show", "query", "--json").stdout)["embedded"] is True
    text = run("catalog", "show", "FETCH").stdout
    assert "preferred for HTTP  GET" in text
    missing = run("catalog", "show", "BOOKS", "--json")
    assert missing.exit_code == 1
    assert "BOOK" in json.loads(missing.stdout)["close_matches"]


def test_show_reads_the_configured_catalog(run: Run, folder: Path) -> None:
    """The catalog that host.toml names, or --catalog (API-024)."""
    (folder / "own.json").write_text(json.dumps(document("9.9.9", HIRE={"deprecated_in": "9.9.9"})))
    path = folder / "host.toml"
    path.write_text(path.read_text() + '[catalog]\npath = "own.json"\n')
    assert json.loads(run("catalog", "show", "BOOK", "--json").stdout)["version"] == "9.9.9"
    listed = run("catalog", "show", "--catalog", "own.json", "--deprecated").stdout
    assert "HIRE" in listed
    assert "BOOK" not in listed


def test_diff_without_a_deployment_is_no_breakage(run: Run, files: Path) -> None:
    """A removal alone breaks nothing: exit 0 (API-023)."""
    found = run("catalog", "diff", str(files / "old.json"), str(files / "new.json"))
    assert found.exit_code == 0
    assert "removed (1): ECHO" in found.stdout


@pytest.mark.parametrize(("new", "status"), [("same", 0), ("new", 1), ("broken", 2), ("absent", 2)])
def test_the_script_has_three_exit_statuses(files: Path, new: str, status: int) -> None:
    """0 no breakage, 1 breakage in the deployment, 2 what cannot be parsed (API-023)."""
    words = [str(files / "old.json"), str(files / f"{new}.json"), "--against-deployment", str(files / "deployment")]
    found = CliRunner().invoke(script, words, prog_name="agtp-catalog-diff")
    assert found.exit_code == status, found.output


def test_breakage_names_file_and_line(run: Run, files: Path) -> None:
    """The endpoint whose method goes, at its line, as text and as JSON (API-022)."""
    words = [str(files / "old.json"), str(files / "new.json"), "--against-deployment", str(files / "deployment")]
    endpoint = files / "deployment/endpoints/text.toml"
    assert f"{endpoint}:1: breaks (endpoint)" in run("catalog", "diff", *words).stdout
    answer: dict[str, Any] = json.loads(run("catalog", "diff", *words, "--json").stdout)
    assert answer["breakage"] is True
    assert answer["deployment"]["conflicts"] == [
        {
            "kind": "endpoint",
            "file": str(endpoint),
            "line": 1,
            "method": "ECHO",
            "message": "the endpoint's method is ECHO, which catalog 2.0.0 does not have; use its successor REPLY",
            "breaking": True,
        }
    ]


def test_recipes_and_other_layouts_are_scanned(run: Run, files: Path) -> None:
    """agtp-server.toml, the endpoints directory it names, and a recipe registry."""
    place = files / "elsewhere"
    (place / "contracts").mkdir(parents=True)
    (place / "agtp-server.toml").write_text('[endpoints]\ndirectory = "contracts"\n')
    (place / "contracts/a.toml").write_text('path = "/x"\nmethod = "ECHO"\n')
    (place / "agtp-recipes.toml").write_text('[[recipe]]\n[[recipe.steps]]\nmethod = "ECHO"\n')
    answer = json.loads(
        run(
            "catalog", "diff", str(files / "old.json"), str(files / "new.json"),
            "--against-deployment", str(place), "--json",
        ).stdout
    )  # fmt: skip
    assert [(item["kind"], item["line"]) for item in answer["deployment"]["conflicts"]] == [
        ("recipe", 3),
        ("endpoint", 2),
    ]


def test_a_deployment_that_cannot_be_read_is_exit_2(run: Run, files: Path) -> None:
    """Broken TOML is told with its line; a directory that is no deployment is told too."""
    words = ("catalog", "diff", str(files / "old.json"), str(files / "new.json"), "--against-deployment")
    (files / "deployment/endpoints/bad.toml").write_text('method = "BOOK"\npath = \n')
    found = run(*words, str(files / "deployment"))
    assert found.exit_code == 2
    assert "bad.toml:2: the file is not TOML" in found.stderr
    (files / "empty").mkdir()
    assert run(*words, str(files / "empty")).exit_code == 2


def test_the_script_is_installed_under_its_name() -> None:
    """pyproject.toml names a function that exists."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["agtp-catalog-diff"]
    module, _, name = declared.partition(":")
    assert callable(getattr(importlib.import_module(module), name))
