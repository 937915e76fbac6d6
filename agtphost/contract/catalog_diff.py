"""
Differences between two versions of the method catalog, and what they break in a deployment (AGTP-API section 4).

The functions are pure: catalogs and the deployment's documents are passed in parsed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any

from agtphost.vocabulary.catalog import Catalog, CatalogEntry
from agtphost.vocabulary.catalog_versions import version_of
from agtphost.vocabulary.paths import bare
from agtphost.vocabulary.tomltext import Document, Location

"""Keys and list indices from the top of a TOML document."""


class Bump(IntEnum):
    """The part of a version that is incremented (AGTP-API section 4.1)."""

    NONE = 0
    PATCH = 1
    MINOR = 2
    MAJOR = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogChange:
    """A changed member of one method's entry."""

    method: str
    member: str
    before: Any
    after: Any


@dataclass(frozen=True, kw_only=True)
class CatalogDiff:
    """The differences of a newer catalog; names are in alphabetical order."""

    old_version: str
    new_version: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    deprecated: tuple[str, ...]
    """Newly deprecated: current in the old catalog, or absent from it."""

    changed: tuple[CatalogChange, ...]
    needed: Bump
    """The smallest version step that the changes allow."""

    violations: tuple[str, ...]
    """Sentences about how the new version breaks the rules of AGTP-API section 4.1."""

    def document(self) -> dict[str, Any]:
        """Return the differences as JSON members."""
        return {
            "old_version": self.old_version,
            "new_version": self.new_version,
            "added": list(self.added),
            "removed": list(self.removed),
            "deprecated": list(self.deprecated),
            "changed": [
                {"method": item.method, "member": item.member, "before": item.before, "after": item.after}
                for item in self.changed
            ],
            "needed_bump": self.needed.name.lower(),
            "violations": list(self.violations),
        }


def compare(old: Catalog, new: Catalog) -> CatalogDiff:
    """Return all differences between ``old`` and ``new``."""
    both = sorted(old.methods & new.methods)
    changed = tuple(change for name in both for change in _changes(old.entries[name], new.entries[name]))
    added = tuple(sorted(new.methods - old.methods))
    removed = tuple(sorted(old.methods - new.methods))
    needed = _required_bump(old, new, bool(added), bool(removed), changed)
    return CatalogDiff(
        old_version=old.version,
        new_version=new.version,
        added=added,
        removed=removed,
        deprecated=tuple(sorted(new.warnings.keys() - old.warnings.keys())),
        changed=changed,
        needed=needed,
        violations=tuple(_violations(old, new, removed, needed)),
    )


_METADATA = ("deprecated_in", "removed_in", "successor")
_COMPARED = ("categories", "description", *_METADATA, "floor", "standard")


def _changes(old: CatalogEntry, new: CatalogEntry) -> Iterator[CatalogChange]:
    for member in _COMPARED:
        before, after = getattr(old, member), getattr(new, member)
        if before != after:
            yield CatalogChange(
                method=old.name,
                member=member,
                before=list(before) if isinstance(before, tuple) else before,
                after=list(after) if isinstance(after, tuple) else after,
            )


def _required_bump(old: Catalog, new: Catalog, added: bool, removed: bool, changed: Collection[CatalogChange]) -> Bump:
    if removed:
        return Bump.MAJOR
    if added or old.legacy != new.legacy or any(change.member in _METADATA for change in changed):
        return Bump.MINOR
    return Bump.PATCH if changed or old.categories != new.categories else Bump.NONE


def _bump(old: tuple[int, ...], new: tuple[int, ...]) -> Bump:
    """Return the first part in which a later version differs."""
    for bump, before, after in zip((Bump.MAJOR, Bump.MINOR, Bump.PATCH), old, new, strict=True):
        if before != after:
            return bump
    return Bump.NONE


def _violations(old: Catalog, new: Catalog, removed: Iterable[str], needed: Bump) -> Iterator[str]:
    before, after = version_of(old.version), version_of(new.version)
    if after < before:
        yield f"the new version {new.version} is lower than {old.version}"
    elif _bump(before, after) < needed:
        made = _bump(before, after)
        step = f"a {made.name} step" if made else "no step at all"
        yield f"the changes need a {needed.name} step, but {old.version} to {new.version} is {step}"
    for name in removed:
        yield from _removal(old.entries[name], new.version)
    for name in sorted(new.warnings.keys() - old.warnings.keys()):
        since = new.entries[name].deprecated_in
        assert since is not None, "only deprecated methods have a warning"
        if not before < version_of(since) <= after:
            yield f"{name} is newly deprecated, but its deprecated_in is {since}"


def _removal(entry: CatalogEntry, version: str) -> Iterator[str]:
    if entry.deprecated_in is None:
        yield f"{entry.name} is removed without having been deprecated"
    elif entry.removed_in is not None and version_of(version) < version_of(entry.removed_in):
        yield f"{entry.name} is removed in {version}; {entry.removed_in} was announced"


def irregularities(catalog: Catalog) -> tuple[str, ...]:
    """Return sentences about where a catalog's own versions break AGTP-API sections 4.1 and 4.2."""
    return tuple(_irregularities(catalog))


def _irregularities(catalog: Catalog) -> Iterator[str]:
    current = version_of(catalog.version)
    for name in sorted(catalog.warnings):
        entry = catalog.entries[name]
        assert entry.deprecated_in is not None, "only deprecated methods have a warning"
        since = version_of(entry.deprecated_in)
        if since > current:
            yield f"{name} is deprecated since {entry.deprecated_in}, which is later than {catalog.version}"
        if entry.removed_in is None:
            continue
        until = version_of(entry.removed_in)
        if until[0] <= since[0]:
            yield f"{name} has removed_in {entry.removed_in}, which is not a MAJOR step after {entry.deprecated_in}"
        if until <= current:
            yield f"{name} has removed_in {entry.removed_in}, but is still in {catalog.version}"
        if entry.successor in catalog.warnings:
            yield f"{name} has the successor {entry.successor}, which is deprecated too"


# The deployment


class Kind(Enum):
    """The kind of a conflict in AGTP-API section 4.7."""

    PATH = "path"
    """A path has a segment that became a method name."""

    ENDPOINT = "endpoint"
    RECIPE = "recipe"
    POLICY = "policy"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogConflict:
    """A place of a deployment that the new catalog affects."""

    kind: Kind
    file: str
    line: int
    """From 1; 0 where unknown."""

    method: str
    """The method name that causes the conflict."""

    message: str
    breaking: bool
    """False if it keeps working with a warning, because the method is only deprecated."""

    def document(self) -> dict[str, Any]:
        """Return the conflict as JSON members."""
        return {
            "kind": self.kind.value,
            "file": self.file,
            "line": self.line,
            "method": self.method,
            "message": self.message,
            "breaking": self.breaking,
        }


class Role(Enum):
    """The role of a document in a deployment."""

    HOST = "host"
    ENDPOINTS = "endpoints"
    RECIPES = "recipes"


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """A parsed TOML document of a deployment."""

    role: Role
    file: str
    document: Document


def conflicts(artifacts: Iterable[Artifact], old: Catalog, new: Catalog) -> list[CatalogConflict]:
    """
    Return what breaks in a deployment, or gets a warning, when ``new`` replaces ``old``.

    What is wrong under both catalogs is not reported, because the upgrade does not cause it.
    """
    everything = list(artifacts)
    customs = {
        name
        for artifact in everything
        if artifact.role is Role.HOST
        for name in _as_strings(_policy(artifact.document.tree).get("custom"))
    }
    scan = _Scan(old, new, customs)
    found = [conflict for artifact in everything for conflict in scan.artifact(artifact)]
    return sorted(found, key=lambda conflict: (conflict.file, conflict.line))


def _policy(tree: Mapping[str, Any]) -> Mapping[str, Any]:
    policies = tree.get("policies")
    methods = policies.get("methods") if isinstance(policies, Mapping) else None
    return methods if isinstance(methods, Mapping) else {}


def _as_strings(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


_Finding = tuple[Kind, Location, str, str, bool]
"""Kind, location, method, sentence, and whether it breaks."""


class _Scan:
    def __init__(self, old: Catalog, new: Catalog, customs: Collection[str]) -> None:
        self._added = new.methods - old.methods
        self._removed = old.methods - new.methods - set(customs)
        self._deprecated = {name: new.entries[name] for name in new.warnings}
        self._old = old
        self._version = new.version

    def artifact(self, artifact: Artifact) -> Iterator[CatalogConflict]:
        readers = {Role.HOST: self._host, Role.ENDPOINTS: self._endpoints, Role.RECIPES: self._recipes}
        for kind, location, method, message, breaking in readers[artifact.role](artifact.document.tree):
            yield CatalogConflict(
                kind=kind,
                file=artifact.file,
                line=artifact.document.line(location, 0),
                method=method,
                message=message,
                breaking=breaking,
            )

    def _method(self, kind: Kind, location: Location, name: object, subject: str) -> Iterator[_Finding]:
        if not isinstance(name, str):
            return
        if name in self._removed:
            entry = self._old.entry(name)
            instead = f"; use its successor {entry.successor}" if entry and entry.successor else ""
            message = f"{subject} {name}, which catalog {self._version} does not have{instead}"
            yield kind, location, name, message, True
        elif name in self._deprecated:
            yield kind, location, name, f"{subject} {name}: {self._deprecated[name].warning}", False

    def _path(self, location: Location, path: object, subject: str) -> Iterator[_Finding]:
        for segment in path.split("/") if isinstance(path, str) else ():
            word = bare(segment)
            if word in self._added:
                message = f"{subject} {path} has the segment {segment!r}: {word} is a method of catalog {self._version}"
                yield Kind.PATH, location, word, message, True

    def _endpoints(self, tree: Mapping[str, Any]) -> Iterator[_Finding]:
        listed = tree.get("endpoint")
        if not isinstance(listed, list):
            yield from self._endpoint(tree, ())
            return
        for index, table in enumerate(listed):
            if isinstance(table, Mapping):
                yield from self._endpoint(table, ("endpoint", index))

    def _endpoint(self, table: Mapping[str, Any], at: Location) -> Iterator[_Finding]:
        path = table.get("path")
        yield from self._method(Kind.ENDPOINT, (*at, "method"), table.get("method"), "the endpoint's method is")
        yield from self._path((*at, "path"), path, "the endpoint's path")
        deprecated = table.get("deprecated")
        successor = deprecated.get("successor") if isinstance(deprecated, Mapping) else None
        if isinstance(successor, Mapping):
            here = (*at, "deprecated", "successor")
            yield from self._method(Kind.ENDPOINT, (*here, "method"), successor.get("method"), "the successor is")
            yield from self._path((*here, "path"), successor.get("path"), "the successor's path")

    def _recipes(self, tree: Any, at: Location = ()) -> Iterator[_Finding]:
        """Check each member named ``method`` or ``path``, at every level of nested recipes."""
        if isinstance(tree, list):
            for index, item in enumerate(tree):
                yield from self._recipes(item, (*at, index))
        elif isinstance(tree, Mapping):
            for name, value in tree.items():
                if name == "method":
                    yield from self._method(Kind.RECIPE, (*at, name), value, "the recipe calls")
                elif name == "path":
                    yield from self._path((*at, name), value, "the recipe's path")
                yield from self._recipes(value, (*at, name))

    def _host(self, tree: Mapping[str, Any]) -> Iterator[_Finding]:
        policy = _policy(tree)
        top: Location = ("policies", "methods")
        for key in ("allow", "disallow"):
            for index, name in enumerate(_as_strings(policy.get(key))):
                yield from self._method(Kind.POLICY, (*top, key, index), name, f"{key} names")
        aliases = policy.get("aliases")
        for name, target in aliases.items() if isinstance(aliases, Mapping) else ():
            here = (*top, "aliases", name)
            yield from self._method(Kind.POLICY, here, target, f"the alias {name} leads to")
            if name in self._added:
                message = f"the alias {name} is the name of a method in catalog {self._version}"
                yield Kind.POLICY, here, name, message, True
        redirects = policy.get("redirects")
        for index, entry in enumerate(redirects if isinstance(redirects, list) else ()):
            if isinstance(entry, Mapping):
                here = (*top, "redirects", index)
                for key in ("from_method", "to_method"):
                    yield from self._method(Kind.POLICY, (*here, key), entry.get(key), "a redirect names")
                for key in ("from_path", "to_path"):
                    yield from self._path((*here, key), entry.get(key), "a redirect's path")
