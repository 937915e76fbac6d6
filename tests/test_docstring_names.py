"""
Every exception and every target of a role that a docstring of the package names exists.

``:raises X:`` names a class that the module knows, that is built in, or that a full dotted name leads to. A role such
as ``:class:`` names something of its class or of its module, or has a dotted name: a full one, or the end of one with a
dot before it.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from zope.interface.interface import InterfaceClass

from tests.sources import parsed, statements_in, walk

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "agtphost"

RAISES = re.compile(r":raises\s+([\w.,\s]+):")
ROLE = re.compile(r":(class|func|attr|meth|data|exc|const|obj|mod):`([^`]+)`")
LITERAL = re.compile(r"``[^`\n]+``")
TITLED = re.compile(r".*<([^<>]+)>", re.DOTALL)

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(eq=False)
class Scope:
    """The names of one module or class; ``bases`` are those of a class."""

    module: str
    node: ast.Module | ast.ClassDef
    names: dict[str, ast.AST | str] = field(default_factory=dict)
    """What each name is: the statement that defines it, or the full name that it was imported by."""

    @property
    def bases(self) -> list[ast.expr]:
        """Return the expressions of the base classes."""
        return self.node.bases if isinstance(self.node, ast.ClassDef) else []


class Names:
    """
    The names of some modules, by which dotted names are looked up.

    :param sources: the text of each module by its full name.
    """

    def __init__(self, sources: Mapping[str, str]) -> None:
        self.trees = {name: parsed(source) for name, source in sources.items()}
        self._scopes: dict[ast.AST, Scope] = {}
        self.packages = {name.rpartition(".")[0] for name in sources}

    def scope(self, module: str, node: ast.Module | ast.ClassDef) -> Scope:
        """Return the scope of a module or class."""
        found = self._scopes.get(node)
        if found is None:
            found = self._scopes[node] = Scope(module, node)
            for name, value in self._defined(module, node.body):
                found.names.setdefault(name, value)
            if isinstance(node, ast.ClassDef):
                for name, value in _instance_names(node):
                    found.names.setdefault(name, value)
        return found

    def _defined(self, module: str, body: list[ast.stmt]) -> Iterator[tuple[str, ast.AST | str]]:
        for statement in body:
            if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
                yield statement.name, statement
            elif isinstance(statement, ast.Import):
                for each in statement.names:
                    yield (each.asname, each.name) if each.asname else (each.name.partition(".")[0],) * 2
            elif isinstance(statement, ast.ImportFrom):
                for each in statement.names:
                    yield each.asname or each.name, f"{self._imported_from(module, statement)}.{each.name}"
            elif isinstance(statement, (ast.Assign, ast.AnnAssign, ast.For, ast.AugAssign)):
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                for target in targets:
                    for inner in ast.walk(target):
                        if isinstance(inner, ast.Name):
                            yield inner.id, statement
            for part in ("body", "orelse", "handlers", "finalbody"):
                if not isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
                    for inner in getattr(statement, part, ()):
                        yield from self._defined(
                            module, inner.body if isinstance(inner, ast.ExceptHandler) else [inner]
                        )

    def _imported_from(self, module: str, statement: ast.ImportFrom) -> str:
        if not statement.level:
            return statement.module or ""
        package = module if module in self.packages else module.rpartition(".")[0]
        for _ in range(statement.level - 1):
            package = package.rpartition(".")[0]
        return f"{package}.{statement.module}" if statement.module else package

    # Look-ups: each returns the definition, the module or the object that a name leads to, and None if there is none.

    def find(self, dotted: str) -> object:
        """Return what a full dotted name leads to."""
        parts = dotted.split(".")
        for length in range(len(parts), 0, -1):
            module = ".".join(parts[:length])
            if module in self.trees:
                return self._in_module(module, parts[length:])
        return None if parts[0] == PACKAGE.name and PACKAGE.name in self.trees else _find_foreign(parts)

    def _in_module(self, module: str, rest: list[str]) -> object:
        if not rest:
            return self.trees[module]
        found = self.find_in(self.scope(module, self.trees[module]), rest)
        if found is None and "__getattr__" in self.scope(module, self.trees[module]).names:
            return _find_foreign([*module.split("."), *rest])
        return found

    def find_in(self, scope: Scope, parts: list[str]) -> object:
        """Return what a dotted name leads to whose first part is a name of the scope."""
        name, *rest = parts
        value = scope.names.get(name)
        if value is None:
            for base in scope.bases:
                if (found := self._in_base(scope, base, parts)) is not None:
                    return found
            return None
        return self._follow(scope, value, rest)

    def _follow(self, scope: Scope, value: ast.AST | str, rest: list[str]) -> object:
        if isinstance(value, str):
            return self.find(".".join([value, *rest]))
        if not rest:
            return value
        if isinstance(value, ast.ClassDef):
            return self.find_in(self.scope(scope.module, value), rest)
        if isinstance(value, ast.Assign) and (alias := _dotted(value.value)):
            return self._lookup(scope, [*alias, *rest])
        return None

    def _in_base(self, scope: Scope, base: ast.expr, parts: list[str]) -> object:
        alias = _dotted(base.value if isinstance(base, ast.Subscript) else base)
        return self._lookup(self.scope(scope.module, self.trees[scope.module]), [*alias, *parts]) if alias else None

    def _lookup(self, scope: Scope, parts: list[str]) -> object:
        module = self.scope(scope.module, self.trees[scope.module])
        return self.find_in(module, parts) or (
            _find_foreign(["builtins", *parts]) if parts[0] in vars(builtins) else None
        )

    def find_from(self, module: str, classes: list[ast.ClassDef], name: str) -> object:
        """Return what a name in a docstring leads to."""
        parts = name.split(".")
        for node in reversed(classes):
            if (found := self.find_in(self.scope(module, node), parts)) is not None:
                return found
        return self._lookup(self.scope(module, self.trees[module]), parts) or self.find(name)

    def find_by_end(self, module: str, name: str) -> object:
        """Return what a name after a dot leads to: in the module, in its package, or by the end of a full name."""
        parts = name.split(".")
        if (found := self._lookup(self.scope(module, self.trees[module]), parts)) is not None:
            return found
        package = module if module in self.packages else module.rpartition(".")[0]
        if (found := self.find(f"{package}.{name}" if package else name)) is not None:
            return found
        for length in range(len(parts), 0, -1):
            end = "." + ".".join(parts[:length])
            for other in self.trees:
                if other.endswith(end) and (found := self._in_module(other, parts[length:])) is not None:
                    return found
        return None


def _instance_names(node: ast.ClassDef) -> Iterator[tuple[str, ast.AST]]:
    """Yield the attributes that methods of a class give ``self``, and its slots."""
    for inner in walk(node):
        if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store) and _dotted(inner.value) == ["self"]:
            yield inner.attr, inner


def _dotted(node: ast.expr) -> list[str]:
    """Return the parts of an expression that is a dotted name; nothing for any other."""
    if isinstance(node, ast.Name):
        return [node.id]
    before = _dotted(node.value) if isinstance(node, ast.Attribute) else []
    return [*before, node.attr] if before and isinstance(node, ast.Attribute) else []


@cache
def _import(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _find_foreign(parts: list[str]) -> object:
    """Return an object of an installed package."""
    for length in range(len(parts), 0, -1):
        found: object = _import(".".join(parts[:length]))
        if found is None:
            continue
        for name in parts[length:]:
            known = isinstance(found, InterfaceClass) and name in found
            if not known and not hasattr(found, name):
                return None
            found = found[name] if known else getattr(found, name)  # type: ignore[index]
        return found
    return None


def _docstrings(node: ast.AST, classes: list[ast.ClassDef]) -> Iterator[tuple[list[ast.ClassDef], int, str]]:
    """Yield each string that stands as a statement, with the classes around it and its line."""
    for child in statements_in(node):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant) and isinstance(child.value.value, str):
            yield classes, child.lineno, child.value.value
        yield from _docstrings(child, [*classes, child] if isinstance(child, ast.ClassDef) else classes)


def find_faults(sources: Mapping[str, str]) -> list[str]:
    """Return module, line and text of each name in a docstring that leads to nothing, or to no exception."""
    names = Names(sources)
    faults = []
    for module, tree in names.trees.items():
        for classes, line, docstring in _docstrings(tree, []):
            text = LITERAL.sub("literal", docstring)
            for match in RAISES.finditer(text):
                at = line + text.count("\n", 0, match.start())
                named = re.split(r",\s*", match[1].strip())
                unknown = [name for name in named if not _is_class(names.find_from(module, classes, name))]
                faults += [f"{module}:{at} :raises {name}:" for name in unknown]
            for match in ROLE.finditer(text):
                at = line + text.count("\n", 0, match.start())
                titled = TITLED.fullmatch(match[2])
                name = (titled[1] if titled else match[2]).lstrip("~!").removesuffix("()")
                found = (
                    names.find_by_end(module, name[1:])
                    if name.startswith(".")
                    else names.find_from(module, classes, name)
                )
                if found is None or (match[1] == "mod" and not isinstance(found, (ast.Module, ModuleType))):
                    faults.append(f"{module}:{at} :{match[1]}:`{name}`")
    return faults


def _is_class(found: object) -> bool:
    """Return whether something may be an exception: a class, or a name that was assigned one."""
    return isinstance(found, (ast.ClassDef, ast.Assign)) or (
        isinstance(found, type) and issubclass(found, BaseException)
    )


def _sources() -> dict[str, str]:
    """Return the text of each module of the package by its full name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text()
    return found


@pytest.mark.slow
def test_docstrings_name_what_exists() -> None:
    """Each ``:raises X:`` names a class, and the target of each role is found."""
    assert find_faults(_sources()) == []


BROKEN = '''
"""Uses :mod:`.nowhere` and :mod:`wrong`."""

from json import JSONDecodeError, loads


class Client:
    """A client; see :attr:`key`, :attr:`Client.key`, :attr:`HttpClient.key` and :attr:`Client.lock`."""

    def __init__(self) -> None:
        self.key = ""

    def read(self) -> None:
        """
        Read; see :meth:`read`, :meth:`write`, :func:`.wrong.helper`, :func:`.wrong.absent` and :class:`~json.Absent`.

        :raises Unread: never.
        :raises JSONDecodeError: always.
        :raises ValueError, Unheard: sometimes.
        :raises loads: a function.

        A hint: ``:raises NAME:`` is the form of such a line.
        """


def helper() -> None:
    """Help as :meth:`wrong.Client.read` and :meth:`Client <wrong.Client.shut>` do."""
'''


def test_control_names_of_nothing_are_noticed() -> None:
    """Each broken name of a module is found, and none of the sound ones."""
    found = find_faults({"wrong": BROKEN.lstrip()})
    assert [each.partition(" ")[2] for each in found] == [
        ":mod:`.nowhere`",
        ":attr:`HttpClient.key`",
        ":attr:`Client.lock`",
        ":raises Unread:",
        ":raises Unheard:",
        ":raises loads:",
        ":meth:`write`",
        ":func:`.wrong.absent`",
        ":class:`json.Absent`",
        ":meth:`wrong.Client.shut`",
    ]
