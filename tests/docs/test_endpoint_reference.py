"""The page of endpoint and recipe files is current and whole, and a host accepts its examples."""

from __future__ import annotations

import re
import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from agtphost.cli.root import agtp
from tests.rows import each_row
from tests.system.hosting import free_port

DOCS = Path(__file__).resolve().parents[2] / "docs"
REFERENCE: Mapping[str, Any] = runpy.run_path(str(DOCS / "endpoint_reference.py"))
TABLES: Mapping[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = REFERENCE["TABLES"]
EXAMPLES: Mapping[str, str] = REFERENCE["EXAMPLES"]

HANDLERS = """
def look_up(ctx):
    return {"title": "Emma"}
"""


def check_host(folder: Path, files: Mapping[str, str]) -> Result:
    """Return what ``agtp check`` says about a development host with these files."""
    (folder / "endpoints").mkdir(exist_ok=True)
    (folder / "page_handlers").mkdir(exist_ok=True)
    (folder / "page_handlers" / "library.py").write_text(HANDLERS)
    for name, text in files.items():
        (folder / name).write_text(text.replace("handlers.library", "page_handlers.library"))
    (folder / "host.toml").write_text(
        '[host]\nserver_id = "localhost"\nprofile = "development"\nstate_dir = "state"\n'
        f"[listen]\nport = {free_port()}\n"
        '[endpoints]\ndirectory = "endpoints"\npython_path = ["."]\n[recipes]\nfile = "recipes.toml"\n'
    )
    return CliRunner().invoke(agtp, ["check", str(folder / "host.toml")], env={"ORDERS_TOKEN": "a-token"})


def test_the_page_is_current() -> None:
    """It says what the file of members and the host's own tables say."""
    assert (DOCS / "endpoint-file.rst").read_text() == REFERENCE["endpoint_file"](), "run: python docs/generate.py"


@each_row("table", list(TABLES))
def test_a_table_has_each_member_that_the_host_reads(table: str) -> None:
    """No member is missing, and none is described that the host refuses."""
    _, required, optional = TABLES[table]
    texts = REFERENCE["members"]()[table]
    assert sorted(texts) == sorted((*required, *optional))
    assert all(text["meaning"].endswith(".") and text["type"] for text in texts.values())


def test_a_host_accepts_the_examples(tmp_path: Path) -> None:
    """``agtp check`` finds the four files sound, together."""
    result = check_host(tmp_path, EXAMPLES)
    assert result.exit_code == 0 and ": sound (" in result.output, result.output


@each_row("file", list(EXAMPLES))
def test_a_misspelt_member_of_an_example_is_refused(file: str, tmp_path: Path) -> None:
    """The control: the examples are read as a whole."""
    name = re.findall(r"^(\w+) = ", EXAMPLES[file], flags=re.MULTILINE)[-1]
    wrong = re.sub(rf"^{name} = ", f"{name}x = ", EXAMPLES[file], flags=re.MULTILINE)
    result = check_host(tmp_path, {**EXAMPLES, file: wrong})
    assert result.exit_code != 0 and f"{name}x" in result.output, result.output


def test_a_default_is_that_of_the_host() -> None:
    """Defaults of external services are those of the class that the host makes."""
    defaults = {
        name: text["default"] for name, text in REFERENCE["members"]()["external_service"].items() if "default" in text
    }
    fields = REFERENCE["service"].ServiceReference.__dataclass_fields__
    names = {"timeout_seconds": "timeout"}
    for name, said in defaults.items():
        value = fields[names.get(name, name)].default
        if isinstance(value, bool):
            assert said == str(value).lower()
        elif isinstance(value, (int, float)):
            assert float(said) == value
        else:
            assert (name, said) in {("body", "json"), ("allow_addresses", "[]")}
