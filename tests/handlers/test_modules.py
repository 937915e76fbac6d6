"""The operator's modules that a reload imports: what they see of one another and of what is installed."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from agtphost.handlers.endpoint import hints_of
from agtphost.handlers.function import UnresolvableFunction
from agtphost.handlers.modules import ModuleSet, NewImports, OperatorFiles

TYPED = """
    from __future__ import annotations
    from dataclasses import dataclass

    from pydantic import BaseModel
    from typing_extensions import TypedDict
    from agtphost import endpoint

    {earlier}
    class Named(TypedDict):
        {named}

    @dataclass
    class Data:
        {data}

    class Model(BaseModel):
        {model}

    @endpoint
    def named(text: str) -> Named: ...

    @endpoint
    def data(text: str) -> Data: ...

    @endpoint
    def model(text: str) -> Model: ...
"""
BEFORE = TYPED.format(earlier="", named="text: str", data="text: str", model="text: str")
INNER = "class Inner(TypedDict):\n        word: str\n"
AFTER = TYPED.format(earlier=INNER, named="inner: Inner", data="inner: Inner", model="inner: Inner")


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files of a directory, and have Python look for them."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(dedent(text), encoding="utf-8")
    importlib.invalidate_caches()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory that modules are imported from; those are forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("shelf_"):
            del sys.modules[name]


def test_types_are_looked_up_in_the_modules_of_their_set(folder: Path) -> None:
    """A type that an edit adds is found by annotations that are texts, in each kind of class."""
    write(folder, {"shelf_typed.py": BEFORE})
    running = importlib.import_module("shelf_typed")
    write(folder, {"shelf_typed.py": AFTER})
    candidate = ModuleSet([folder])
    with candidate.register_during_import():
        for name in ("named", "data", "model"):
            hints = hints_of(f"shelf_typed.{name}", candidate.resolve)
            assert hints is not None and hints.output_schema is not None
            assert hints.output_schema["properties"]["inner"]["properties"]["word"] == {"type": "string"}, name
    assert sys.modules["shelf_typed"] is running, "what is in force keeps its name until the candidate is"
    candidate.install()
    assert sys.modules["shelf_typed"] is candidate.module("shelf_typed") is not running


def test_modules_that_import_each_other_are_of_one_set(folder: Path) -> None:
    """A relative import of a module that is being imported finds that one, and not the one in force."""
    files = {
        "shelf_ring/__init__.py": "",
        "shelf_ring/one.py": "from . import two\nWORD = 'old'\n",
        "shelf_ring/two.py": "from . import one\ndef say(context): return one.WORD\n",
    }
    write(folder, files)
    importlib.import_module("shelf_ring.one")
    write(folder, {"shelf_ring/one.py": "from . import two\nWORD = 'new'\n"})
    candidate = ModuleSet([folder])
    with candidate.register_during_import():
        candidate.module("shelf_ring.one")
        assert candidate.resolve("shelf_ring.two.say")(None) == "new"  # type: ignore[arg-type]


def test_importlib_imports_modules_of_the_set(folder: Path) -> None:
    """A helper that is imported by a name in a variable is read again, too, and is in force with the others."""
    main = "import importlib\nHELPER = importlib.import_module('shelf_helper')\ndef say(context): return HELPER.WORD\n"
    write(folder, {"shelf_main.py": main, "shelf_helper.py": "WORD = 'old'\n"})
    importlib.import_module("shelf_main")
    write(folder, {"shelf_helper.py": "WORD = 'newer'\n"})
    candidate = ModuleSet([folder])
    with candidate.register_during_import():
        assert candidate.resolve("shelf_main.say")(None) == "newer"  # type: ignore[arg-type]
    assert sys.modules["shelf_helper"].WORD == "old"
    candidate.install()
    assert sys.modules["shelf_helper"].WORD == "newer"


def test_a_module_that_fails_leaves_no_name(folder: Path) -> None:
    """Neither itself nor what it imported: ``sys.modules`` is as it was."""
    write(folder, {"shelf_faulty.py": "import shelf_other\nimport nothing_of_that_name\n", "shelf_other.py": ""})
    before = dict(sys.modules)
    candidate = ModuleSet([folder])
    with candidate.register_during_import(), pytest.raises(UnresolvableFunction, match="nothing_of_that_name"):
        candidate.resolve("shelf_faulty.say")
    assert {name for name in sys.modules if name.startswith("shelf_")} == set()
    assert all(sys.modules[name] is module for name, module in before.items())


def test_a_directory_does_not_hide_an_installed_package(folder: Path) -> None:
    """A folder ``mcp`` beside ``host.toml`` is no module where the package is installed, as for Python."""
    write(folder, {"mcp/data.txt": "", "shelf_client.py": "import mcp.types\ndef say(context): return mcp.__file__\n"})
    found = ModuleSet([folder]).resolve("shelf_client.say")(None)  # type: ignore[arg-type]
    assert found == importlib.import_module("mcp").__file__


def test_a_file_does_not_hide_a_module_of_python(folder: Path) -> None:
    """``queue.py`` beside ``host.toml`` is what it is at a start: never imported."""
    write(folder, {"queue.py": "raise RuntimeError\n", "shelf_queue.py": "import queue\nsay = queue.Queue\n"})
    candidate = ModuleSet([folder])
    with candidate.register_during_import():
        assert candidate.resolve("shelf_queue.say") is importlib.import_module("queue").Queue


def test_packages_in_a_virtual_environment_below_are_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a refused reload the operator's modules are forgotten, and installed packages are not: some load only once."""
    installed = folder / ".venv/lib/python3/site-packages"
    write(folder, {".venv/lib/python3/site-packages/shelf_installed.py": "", "shelf_mine.py": ""})
    monkeypatch.syspath_prepend(installed)
    since = NewImports([folder])
    for name in ("shelf_installed", "shelf_mine"):
        importlib.import_module(name)
    since.forget()
    assert ("shelf_installed" in sys.modules, "shelf_mine" in sys.modules) == (True, False)
    files = OperatorFiles([folder])
    assert [files.contain(str(each)) for each in (folder / "a.py", installed / "a.py", folder.parent / "a.py")] == [
        True,
        False,
        False,
    ]
