"""
Import the operator's modules again while the old ones stay in use: ``[endpoints] reload``.

A set of modules imports what is in the operator's own directories separately, each module once, and everything else as
Python does. Its modules see only modules of the same set. So functions of the configuration before keep the modules
that they were written against, even if they import something in the middle of a call.

``sys.modules`` has the set in force, except while another one is imported and its type hints are read: Python itself,
dataclasses and pydantic look up the module of a class there, by its name.
"""

from __future__ import annotations

import builtins
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import invalidate_caches
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import cache_from_source, module_from_spec, resolve_name
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from agtphost.handlers.function import Function, resolve
from agtphost.vocabulary.regular_files import Stamp, stamps

PROCESS = frozenset({"agtphost", "__main__"}) | sys.stdlib_module_names
"""Names of top-level modules that always belong to the process."""

_INSTALLED = re.compile(r"/(?:site|dist)-packages/")
"""Where packages are installed, such as in a virtual environment in the directory of ``host.toml``."""


class OperatorFiles:
    """
    A check whether files belong to the operator's modules or to packages installed below the same directory.

    :param roots: ``[endpoints] python_path``.
    """

    def __init__(self, roots: Iterable[Path | str]) -> None:
        # As text, because parsing thousands of paths at each start and reload takes too long.
        self._roots = tuple(os.path.join(os.path.normpath(root), "") for root in roots)

    def contain(self, place: str) -> bool:
        """Return whether a file or directory is the operator's."""
        path = os.path.join(os.path.normpath(place), "")
        return any(path.startswith(root) and _INSTALLED.search(path, len(root) - 1) is None for root in self._roots)


class NewImports:
    """
    The operator's modules that Python imports after this object was made.

    :param roots: ``[endpoints] python_path`` of every configuration concerned.
    """

    def __init__(self, roots: Iterable[Path]) -> None:
        self._roots = [str(root) for root in roots]
        self._places = list(sys.path)
        self._before = set(sys.modules)

    def forget(self) -> None:
        """
        Remove them from ``sys.modules`` and their packages, so that the next import reads their files again.

        Directories that were added to ``sys.path`` since are removed from it, and their modules too.
        """
        added = [place for place in sys.path if place not in self._places]
        sys.path[:] = [place for place in sys.path if place in self._places]
        own = OperatorFiles((*self._roots, *added))
        for name in set(sys.modules) - self._before:
            module = sys.modules[name]
            file = getattr(module, "__file__", None)
            if not isinstance(file, str) or not own.contain(file):
                continue
            del sys.modules[name]
            _forget_code(file)
            package, _, last = name.rpartition(".")
            parent = sys.modules.get(package)
            if parent is not None and getattr(parent, last, None) is module:
                delattr(parent, last)
        invalidate_caches()


def _forget_code(file: str) -> None:
    """Remove the cached code of a file, which Python uses while size and second of change of the file are equal."""
    # An interpreter that keeps no code raises NotImplementedError; a file that was not cached has none to remove.
    with suppress(OSError, NotImplementedError):
        os.unlink(cache_from_source(file))


class _SourceLoader(SourceFileLoader):
    """
    A loader that always compiles the source.

    Python's cached code is checked only by the size of the source and the second of its last change, so it may be old.
    """

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


class ModuleSet:
    """
    A set of imported modules.

    :param roots: ``[endpoints] python_path``.
    :param stale: files that changed since they were imported.
    """

    def __init__(self, roots: Iterable[Path], stale: Iterable[Path] = ()) -> None:
        self._roots = [str(root) for root in roots]
        self._stale = frozenset(map(str, stale))
        self.stamps: dict[Path, Stamp] = {}
        """The file of each module, as it was when the module was imported: some are only imported by a call."""

        self._imported: dict[str, ModuleType] = {}
        self._registering = False
        self._builtins = {**vars(builtins), "__import__": self._import}
        invalidate_caches()

    @property
    def files(self) -> list[Path]:
        """Return the files of the imported modules."""
        return [Path(module.__file__) for module in self._imported.values() if module.__file__]

    def resolve(self, dotted: str) -> Function:
        """
        Return the function that a dotted path names; see :func:`agtphost.handlers.function.resolve`.

        :raises agtphost.handlers.function.UnresolvableFunction: the path names nothing that can be called.
        """
        return resolve(dotted, self.module)

    def module(self, name: str) -> ModuleType:
        """Import a module by its full name, with its parents."""
        if not self._owns(name.partition(".")[0]):
            __import__(name)
            return sys.modules[name]
        module: ModuleType | None = None
        parts = name.split(".")
        for depth in range(1, len(parts) + 1):
            module = self._import_one(".".join(parts[:depth]), module)
        assert module is not None
        return module

    @contextmanager
    def register_during_import(self) -> Iterator[None]:
        """
        Return a context in which ``sys.modules`` has the modules of this set instead of the operator's present ones.

        The present ones are put back at its end; :meth:`install` replaces them for good. Annotations of a class are
        evaluated in the module that ``sys.modules`` has by its name. Circular imports find their module there, and what
        ``importlib`` imports becomes part of the set.
        """
        before = self._remove_own()
        sys.modules.update(self._imported)
        self._registering = True
        try:
            yield
        finally:
            self._registering = False
            self._imported = {**self._remove_own(), **self._imported}
            sys.modules.update(before)

    def _remove_own(self) -> dict[str, ModuleType]:
        """Take the operator's modules out of ``sys.modules`` and return them."""
        owned: dict[str, bool] = {}
        found: dict[str, ModuleType] = {}
        files = OperatorFiles(self._roots)
        for name in list(sys.modules):
            top = name.partition(".")[0]
            if top not in owned:
                owned[top] = self._owns(top)
            if not owned[top]:
                continue
            module = sys.modules[name]
            places = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
            if any(place and files.contain(place) for place in places):
                found[name] = sys.modules.pop(name)
        return found

    def install(self) -> None:
        """
        Put this set into ``sys.modules``, for lookups by name such as those of pickles and tracebacks.

        Modules whose files changed, and that this set has not imported yet, are removed: ``importlib`` reads them anew.
        """
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if isinstance(file, str) and file in self._stale and name not in self._imported:
                del sys.modules[name]
                _forget_code(file)
        sys.modules.update(self._imported)

    def _owns(self, top: str) -> bool:
        """
        Return whether a top-level module is the operator's.

        A directory without ``__init__.py`` is one unless a package of that name is installed, as for Python.
        """
        spec = None if top in PROCESS else self._spec(top, self._roots)
        if spec is None or spec.loader is not None:
            return spec is not None
        usual = PathFinder.find_spec(top)
        return usual is None or usual.loader is None

    @staticmethod
    def _spec(name: str, places: Iterable[str]) -> ModuleSpec | None:
        return PathFinder.find_spec(name, list(places))

    def _import_one(self, name: str, parent: ModuleType | None) -> ModuleType:
        known = self._imported.get(name)
        if known is not None:
            return known
        places = self._roots if parent is None else getattr(parent, "__path__", [])
        spec = self._spec(name, places)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if type(spec.loader) is SourceFileLoader:
            spec.loader = _SourceLoader(spec.loader.name, spec.loader.path)
        if spec.origin is not None and spec.has_location:
            self.stamps.update(stamps([Path(spec.origin)]))
        module = self._imported[name] = module_from_spec(spec)
        module.__dict__["__builtins__"] = self._builtins
        if self._registering:
            sys.modules[name] = module
        try:
            if spec.loader is not None:
                spec.loader.exec_module(module)
        except BaseException:
            del self._imported[name]
            if self._registering:
                sys.modules.pop(name, None)
            raise
        if parent is not None:
            setattr(parent, name.rpartition(".")[2], module)
        return module

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Iterable[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """Import a module for the statement ``import`` in these modules."""
        if level:
            package = (globals or {}).get("__package__") or str((globals or {}).get("__name__", "")).rpartition(".")[0]
            name, level = resolve_name("." * level + name, str(package)), 0
        top = name.partition(".")[0]
        if top not in self._imported and not self._owns(top):
            usual: Callable[..., ModuleType] = builtins.__import__
            return usual(name, globals, locals, tuple(fromlist or ()), level)
        module = self.module(name)
        if not fromlist:
            return self._imported[top]
        for each in fromlist:
            if each != "*" and not hasattr(module, each) and hasattr(module, "__path__"):
                try:
                    self.module(f"{name}.{each}")
                except ModuleNotFoundError as error:
                    if error.name != f"{name}.{each}":
                        raise
        return module
