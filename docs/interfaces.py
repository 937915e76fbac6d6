"""
A Sphinx directive for zope interfaces, which autodoc does not read: ``.. interfaces:: agtphost.iagtp``, which may be
followed by the name of one of them.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from zope.interface import Interface
from zope.interface.interface import InterfaceClass, Method


def interfaces_of(module: ModuleType) -> list[InterfaceClass]:
    """Those that a module defines or takes from another, under their names."""
    return [each for each in vars(module).values() if isinstance(each, InterfaceClass) and each is not Interface]


def signatures(interface: InterfaceClass) -> dict[str, str]:
    """``(arguments) -> answer`` of every method that an interface itself declares: zope keeps no annotations."""
    module = importlib.import_module(interface.__module__)
    return {
        method.name: f"({ast.unparse(method.args)})"
        + (f" -> {ast.unparse(method.returns)}" if method.returns is not None else "")
        for owner in ast.parse(inspect.getsource(module)).body
        if isinstance(owner, ast.ClassDef) and owner.name == interface.__name__
        for method in owner.body
        if isinstance(method, ast.FunctionDef)
    }


def written(module: ModuleType, name: str = "") -> Iterator[str]:
    """The lines of a module's interfaces in reStructuredText: of all, or of one."""
    for interface in [getattr(module, name)] if name else interfaces_of(module):
        given = signatures(interface)
        bases = [base.__name__ for base in interface.__bases__ if base.__name__ != "Interface"]
        yield f".. py:class:: {interface.__name__}" + (f"({', '.join(bases)})" if bases else "")
        yield ""
        yield from _indented(interface.__doc__ or "", 3)
        for member_name in interface.names():
            member = interface[member_name]
            if isinstance(member, Method):
                yield f"   .. py:method:: {member_name}{given[member_name]}"
            else:
                yield f"   .. py:attribute:: {member_name}"
            yield ""
            yield from _indented(member.__doc__ or "", 6)


def _indented(text: str, by: int) -> Iterator[str]:
    for line in inspect.cleandoc(text).splitlines():
        yield " " * by + line if line else ""
    yield ""


class Interfaces(SphinxDirective):
    """Every interface of the module that the argument names, or one of them."""

    required_arguments = 1
    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Write them as text, and have Sphinx read it."""
        module = importlib.import_module(self.arguments[0])
        source = str(inspect.getsourcefile(module))
        self.env.note_dependency(source)
        lines = [f".. py:currentmodule:: {module.__name__}", "", *written(module, *self.arguments[1:])]
        return self.parse_text_to_nodes(StringList(lines, source=source))


def setup(app: Sphinx) -> dict[str, Any]:
    """What Sphinx calls."""
    app.add_directive("interfaces", Interfaces)
    return {"version": "1", "parallel_read_safe": True}
