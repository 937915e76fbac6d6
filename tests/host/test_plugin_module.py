"""``agtphost.plugin``: the one module that packages import which extend a host."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from zope.interface.interface import InterfaceClass

from agtphost import plugin
from tests.npm import cache

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"^\.\. code-block:: python\n\n((?:    .*\n|\n)+)", re.MULTILINE)
ELSEWHERE = {"Any", "Awaitable", "Callable", "Iterable", "Iterator", "Mapping", "Sequence", "AbstractContextManager"}
"""Names of the standard library in annotations."""

NO_AUTHORS = {"ITableRows", "ITableSource"}
"""Interfaces of the store that no plugin has to know by name."""


def imports(source: str) -> set[str]:
    """The modules of this package that a module imports."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
        elif isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
    return {name for name in found if name.partition(".")[0] == "agtphost"}


def test_the_pages_import_this_module_alone() -> None:
    """``agtphost.testing`` is for tests, and public too."""
    blocks = [dedent(block) for page in (DOCS / "extending").glob("*.rst") for block in BLOCK.findall(page.read_text())]
    assert len(blocks) >= 7
    found = {name: block for block in blocks for name in imports(block)}
    assert set(found) <= {"agtphost.plugin", "agtphost.testing", "agtphost.testing.stores"}, found
    assert imports("from agtphost.iagtp import IGate\nimport re") == {"agtphost.iagtp"}


def test_every_name_is_there_and_documented() -> None:
    """Sorted, importable, and each with a docstring."""
    assert sorted(plugin.__all__) == plugin.__all__
    undocumented = [name for name in plugin.__all__ if not (getattr(plugin, name).__doc__ or "").strip()]
    assert undocumented == []
    kinds = (
        "IFeature",
        "IHandler",
        "IOperatorGate",
        "IPayloadAdapter",
        "IRecordObserver",
        "IPluggableStore",
        "IWitness",
    )
    assert set(kinds) <= set(plugin.__all__)
    page = (DOCS / "extending" / "index.rst").read_text()
    assert all(f"``{kind}``" in page and kind in (plugin.__doc__ or "") for kind in kinds)
    assert "provisional until release 0.3" in " ".join((plugin.__doc__ or "").split())


def named_types(interface: InterfaceClass) -> Iterator[str]:
    """The names in the annotations of an interface's own methods."""
    module = importlib.import_module(interface.__module__)
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ClassDef) and node.name == interface.__name__:
            for method in node.body:
                if isinstance(method, ast.FunctionDef):
                    given = [argument.annotation for argument in (*method.args.args, *method.args.kwonlyargs)]
                    for annotation in [*given, method.returns]:
                        if annotation is not None:
                            yield from (each.id for each in ast.walk(annotation) if isinstance(each, ast.Name))


def with_bases(interface: InterfaceClass) -> Iterator[InterfaceClass]:
    yield interface
    for base in interface.__bases__:
        if isinstance(base, InterfaceClass) and base.__module__ != "zope.interface":
            yield from with_bases(base)


def test_every_type_of_the_interfaces_is_there() -> None:
    """A plugin can name the types of all that it gets and returns, for stores down to the rows."""
    missing = set()
    for name in plugin.__all__:
        interface = getattr(plugin, name)
        if isinstance(interface, InterfaceClass):
            for each in with_bases(interface):
                missing |= set(named_types(each)) - set(plugin.__all__) - ELSEWHERE - set(dir(builtins))
    assert missing - NO_AUTHORS == set()
    assert "CallView" in set(named_types(plugin.IOperatorGate)), "the control: the annotations are read"


def test_importing_it_starts_nothing() -> None:
    """It installs no reactor, and opens nothing: an author's own tests may come before."""
    code = "import sys, agtphost.plugin; sys.exit('twisted.internet.reactor' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


def write_package(folder: Path) -> list[str]:
    """The modules of the pages, as a package; their names."""
    names = []
    for page in sorted((DOCS / "extending").glob("*.rst")):
        for block in BLOCK.findall(page.read_text()):
            text = dedent(block).strip() + "\n"
            name = re.match(r"# (\S+)\n", text)
            assert name is not None
            if name[1].startswith("shelf/"):
                file = folder / name[1]
                file.parent.mkdir(exist_ok=True)
                file.write_text(text)
                names.append(name[1])
    (folder / "shelf" / "__init__.py").write_text("")
    (folder / "shelf" / "py.typed").write_text("")
    return names


def run_mypy(folder: Path) -> str:
    """What ``mypy --strict`` with mypy-zope says of the package, as its author runs it."""
    root = Path(__file__).resolve().parents[2]
    config = folder / "mypy.ini"
    config.write_text("[mypy]\nplugins = mypy_zope:plugin\nstrict = true\n")
    # Kept as in test_static: what is as it was has been looked at, in another clone as well.
    kept = str(cache().parent / "mypy-plugins")
    command = [sys.executable, "-m", "mypy", "--config-file", str(config), "--cache-dir", kept]
    environ = {"MYPYPATH": str(root), "PATH": ""}
    done = subprocess.run(
        [*command, "-p", "shelf"], cwd=folder, capture_output=True, text=True, timeout=290, env=environ, check=False
    )
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_documented_plugins_pass_mypy_strict(tmp_path: Path) -> None:
    """All of them with mypy-zope, the gate among them; a gate that takes something else is found (the control)."""
    names = write_package(tmp_path)
    assert {"shelf/gate.py", "shelf/feature.py"} <= set(names) and len(names) == 7
    (tmp_path / "shelf" / "wrong.py").write_text(
        "from zope.interface import implementer\n\nfrom agtphost.plugin import IOperatorGate\n\n\n"
        "@implementer(IOperatorGate)\nclass Wrong:\n    name = 'wrong'\n\n"
        "    def check(self, call: int) -> None:\n        pass\n"
    )
    said = run_mypy(tmp_path)
    assert "wrong.py" in said, said
    assert [line for line in said.splitlines() if ": error:" in line and "wrong.py" not in line] == [], said
