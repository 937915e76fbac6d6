"""
``python -m tests.house``: count what makes the tree hard to change, one figure a line.

Issue texts and closing notes quote these figures, so each has one definition, which is its function's docstring.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCHEDULING = re.compile(
    r"\b(?:offload|Executor|in_turns|deferToThread|deferToThreadPool|ThreadPool)\b|callLater\(0\b(?!\.)"
)
PLAIN_TYPES = frozenset({"str", "int", "bool", "float", "bytes", "None", "object", "Path", "Any"})
STARTS_PROCESSES = re.compile(
    r"\b(?:subprocess|forking|Popen|spawnProcess|hosting|started_host|browser|forkserver)\b|tests\.(?:postgres|page\.browser)"
)
CONTAINERS = frozenset(
    {"Sequence", "Mapping", "tuple", "list", "dict", "set", "frozenset", "Callable", "Iterable", "Collection"}
)
FEWEST_FIELDS = 8
MOST_PARAMETERS = 8
MOST_NAMESAKES = 3


@dataclass(frozen=True)
class Module:
    """One parsed module: ``name`` is dotted, ``text`` its source."""

    name: str
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        """Return the number of lines."""
        return self.text.count("\n")

    @property
    def package(self) -> str:
        """Return the package directly below ``agtphost``, or the name of a module that lies there."""
        return self.name.split(".")[1] if "." in self.name else self.name


def read_modules(folder: Path, prefix: str) -> list[Module]:
    """
    Return the modules below a folder, in order of their paths.

    :param prefix: the dotted name of the folder.
    """
    found = []
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text()
        name = ".".join((prefix, *path.relative_to(folder).with_suffix("").parts)).removesuffix(".__init__")
        found.append(Module(name, text, ast.parse(text)))
    return found


def imported_packages(module: Module) -> set[str]:
    """Return the packages of ``agtphost`` that a module imports, for type checkers too, but for its own."""
    found = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("agtphost."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.ImportFrom) and node.module == "agtphost":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {each.name.split(".")[1] for each in node.names if each.name.startswith("agtphost.")}
    return found - {module.package}


def arrows(modules: Iterable[Module]) -> dict[str, set[str]]:
    """Return for each package the packages that it imports."""
    found: dict[str, set[str]] = defaultdict(set)
    for module in modules:
        found[module.package] |= imported_packages(module)
    return found


def mutual_pairs(table: Mapping[str, set[str]]) -> list[tuple[str, str]]:
    """Return the pairs of packages that import each other: one arrow of each pair leads upward."""
    return sorted((a, b) for a, targets in table.items() for b in targets if a < b and a in table.get(b, ()))


def is_bag(node: ast.ClassDef) -> bool:
    """
    Return whether a class only carries collaborators.

    It is a frozen dataclass of at least eight fields, more than half of which are objects of other classes.
    """
    frozen = any("dataclass" in text and "frozen=True" in text for text in map(ast.unparse, node.decorator_list))
    fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
    objects = [each for each in fields if not _type_names(each.annotation) <= PLAIN_TYPES]
    return frozen and len(fields) >= FEWEST_FIELDS and 2 * len(objects) > len(fields)


def _type_names(annotation: ast.expr) -> set[str]:
    containers = {
        "Sequence",
        "Mapping",
        "tuple",
        "list",
        "dict",
        "set",
        "frozenset",
        "Callable",
        "Iterable",
        "Collection",
    }
    named = {each.id for each in ast.walk(annotation) if isinstance(each, ast.Name)}
    return named - containers


def parameter_count(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return how many parameters a function has, but for ``self`` and ``cls``."""
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return len([each for each in given if each.arg not in {"self", "cls"}])


def _walk(modules: Iterable[Module]) -> Iterator[ast.AST]:
    for module in modules:
        yield from ast.walk(module.tree)


def measure_code(modules: list[Module]) -> dict[str, object]:
    """Return the figures of the code, by their names in the table."""
    nodes = list(_walk(modules))
    host = [each for each in modules if each.package == "host"]
    bags = [each for each in nodes if isinstance(each, ast.ClassDef) and is_bag(each)]
    names = Counter(each.name for each in nodes if isinstance(each, ast.ClassDef))
    table = arrows(modules)
    return {
        "lines of code": sum(each.lines for each in modules),
        "modules": len(modules),
        "lines of host": sum(each.lines for each in host),
        "packages that host imports": len(table["host"]),
        "classes that only carry collaborators": len(bags),
        "fields of these": sum(isinstance(field, ast.AnnAssign) for bag in bags for field in bag.body),
        "modules with scheduling code": sum(SCHEDULING.search(each.text) is not None for each in modules),
        "pairs of packages that import each other": len(mutual_pairs(table)),
        "functions with more than eight parameters": sum(
            isinstance(each, FUNCTIONS) and parameter_count(each) > MOST_PARAMETERS for each in nodes
        ),
        "class names used more than three times": sum(count > MOST_NAMESAKES for count in names.values()),
        "classes of built-in handlers": sum(
            isinstance(each, ast.ClassDef) and "IBuiltInHandler" in " ".join(map(ast.unparse, each.decorator_list))
            for each in nodes
        ),
    }


def measure_tests(modules: list[Module]) -> dict[str, object]:
    """Return the figures of the tests, by their names in the table."""
    tests = {module.name: _test_count(module) for module in modules}
    slow = [each.name for each in modules if STARTS_PROCESSES.search(each.text)]
    hosts = _descendants("MemoryHost", modules)
    return {
        "lines of tests": sum(each.lines for each in modules),
        "functions of tests": sum(tests.values()),
        "of these in modules that start processes": sum(tests[name] for name in slow),
        "host classes of tests": len(hosts),
    }


def _test_count(module: Module) -> int:
    return sum(isinstance(each, FUNCTIONS) and each.name.startswith("test") for each in ast.walk(module.tree))


def _descendants(base: str, modules: Iterable[Module]) -> set[str]:
    """Return the names of all classes below a class, by the names of their bases."""
    bases = {
        node.name: {ast.unparse(each).rpartition(".")[2] for each in node.bases}
        for node in _walk(modules)
        if isinstance(node, ast.ClassDef)
    }
    found, grown = {base}, True
    while grown:
        more = {name for name, over in bases.items() if over & found} - found
        found, grown = found | more, bool(more)
    return found - {base}


def measure_tree(root: Path = ROOT) -> dict[str, object]:
    """Return all figures of a checkout; code counts what lies under ``packages`` too."""
    code = read_modules(root / "agtphost", "agtphost")
    for folder in sorted((root / "packages").iterdir()):
        code += [Module(f"packages.{each.name}", each.text, each.tree) for each in read_modules(folder, folder.name)]
    return measure_code(code) | measure_tests(read_modules(root / "tests", "tests"))


def main() -> None:
    """Print the figures as a table, or as JSON."""
    parser = argparse.ArgumentParser(prog="python -m tests.house", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON for machines")
    figures = measure_tree()
    if parser.parse_args().json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{value:>9}  {name}")


if __name__ == "__main__":
    main()
