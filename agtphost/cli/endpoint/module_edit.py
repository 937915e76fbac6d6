"""Add an endpoint's function to a Python module that exists, with every other line unchanged."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping


class ModuleEditError(ValueError):
    """The function cannot be added; the message says why, without a subject."""


IMPORTS: Mapping[str, str] = {
    "Literal": "typing",
    "TypedDict": "typing",
    "EndpointError": "agtphost",
    "endpoint": "agtphost",
}
"""Names that a scaffold uses, and the modules that they are imported from."""


MARK = "\ufeff"
"""The byte order mark that some editors write at the beginning of a file."""


def bound_names(text: str) -> frozenset[str]:
    """
    Return the names that a module binds at its top level.

    :raises ModuleEditError: it is not Python.
    """
    return frozenset(_bindings(_parse(text)))


def add_function(text: str, addition: str, name: str) -> str:
    """
    Return the text of a module with definitions added at its end, and the imports that they need.

    The ends of lines are those of the module, and a byte order mark stays.

    :param addition: Python definitions that use names of :data:`IMPORTS`.
    :param name: of the added function.
    :raises ModuleEditError: the module is not Python, has the function already, or binds one of the names otherwise.
    """
    mark, end = text[: text.startswith(MARK)], "\r\n" if "\r\n" in text else "\n"
    text = text.removeprefix(MARK).replace("\r\n", "\n").replace("\r", "\n")
    tree = _parse(text)
    bound = _bindings(tree)
    if name in bound:
        raise ModuleEditError(f"has {name} already")
    needed: dict[str, list[str]] = {}
    for word, module in IMPORTS.items():
        if not any(isinstance(node, ast.Name) and node.id == word for node in ast.walk(ast.parse(addition))):
            continue
        if word not in bound:
            needed.setdefault(module, []).append(word)
        elif bound[word] != module:
            raise ModuleEditError(f"uses the name {word} for something else")
    # Not splitlines: for Python, a form feed or U+2028 ends no line.
    lines = [f"{line}\n" for line in text.removesuffix("\n").split("\n")] if text else []
    place = _end_of_imports(tree)
    added = [f"from {module} import {', '.join(sorted(words))}\n" for module, words in sorted(needed.items())]
    if added and place and not _is_import(tree, place):
        added.insert(0, "\n")
    edited = "".join((*lines[:place], *added, *lines[place:])).rstrip("\n")
    edited = f"{edited}\n\n\n{addition}" if edited else addition
    _parse(edited)
    return mark + edited.replace("\n", end)


def _parse(text: str) -> ast.Module:
    try:
        return ast.parse(text.removeprefix(MARK))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise ModuleEditError(f"is not Python{f' (line {line})' if line else ''}") from error


def _bindings(tree: ast.Module) -> dict[str, str]:
    """Return the top-level names; the value is the module that a name is imported from under its own name, or empty."""
    found: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            for each in node.names:
                found[each.asname or each.name] = (node.module or "") if each.asname in (None, each.name) else ""
        elif isinstance(node, ast.Import):
            found |= {(each.asname or each.name).partition(".")[0]: "" for each in node.names}
        else:
            found |= dict.fromkeys(_names_bound_by(node), "")
    return found


def _names_bound_by(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
        return
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            yield each.id
        elif isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.MatchAs)) and each.name:
            yield each.name
        elif isinstance(each, ast.alias) and each.name not in IMPORTS:
            # Of TypedDict in a try or under TYPE_CHECKING a second import does no harm.
            yield (each.asname or each.name).partition(".")[0]


def _end_of_imports(tree: ast.Module) -> int:
    """Return after how many lines an import can stand: after the last import at the top, or after the docstring."""
    place = 0
    for node in tree.body:
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node is tree.body[0]
        if not is_docstring and not isinstance(node, (ast.Import, ast.ImportFrom)):
            break
        place = node.end_lineno or 0
    return place


def _is_import(tree: ast.Module, line: int) -> bool:
    return any(isinstance(node, (ast.Import, ast.ImportFrom)) and node.end_lineno == line for node in tree.body)
