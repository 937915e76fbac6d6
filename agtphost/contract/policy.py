"""
The method policy: which methods a host accepts, and their aliases (AGTP-API sections 3.6 and 9).

Reading a policy distinguishes two kinds of faults. A contradiction prevents the host's start. An entry that names a
method that the catalog no longer has is skipped with a warning (AGTP-API section 9.4).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from agtphost.config.policies import SEED_ALIASES, Redirect
from agtphost.config.policies import MethodPolicy as Section
from agtphost.errors import Problem
from agtphost.vocabulary.catalog import FLOOR, LEGACY, Catalog
from agtphost.vocabulary.paths import template_faults

LEGACY_METHODS: Mapping[str, str] = MappingProxyType(
    {"GET": "QUERY", "POST": "EXECUTE", "PUT": "EXECUTE", "DELETE": "EXECUTE", "PATCH": "EXECUTE"}
)
"""The method of an opted-in HTTP verb that no alias maps (AGTP-API section 3.6)."""

LEGACY_ACTIONS: Mapping[str, str] = MappingProxyType({"DELETE": "delete", "PATCH": "modify"})
"""The ``action`` that is added for the verb."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The result of applying the policy to a method and path."""

    method: str
    path: str
    requested_method: str | None
    """The method that was sent, if it differs."""

    admitted: bool
    """False if the answer is 405."""


@dataclass(frozen=True, kw_only=True)
class MethodPolicy:
    """A checked policy; by default it admits everything under the seed aliases."""

    allow: frozenset[str] | None = None
    """None admits every method (``"*"``); otherwise these and the floor."""

    disallow: frozenset[str] = frozenset()
    legacy: tuple[str, ...] = ()
    """The HTTP verbs that are opted in."""

    declared_aliases: Mapping[str, str] = field(default_factory=lambda: SEED_ALIASES)
    """Aliases as configured; see :attr:`aliases` for what applies."""

    redirects: tuple[Redirect, ...] = ()
    custom: frozenset[str] = frozenset()
    """Methods beyond the catalog (AGTP-API section 3.3), those of the declared profiles included."""

    profiles: tuple[str, ...] = ()
    """Names of the declared profiles (core v08 section 7.4.3)."""

    wildcards_accepted: bool = False
    """Whether the host consents to ad-hoc invocation (AGTP-API section 16.4)."""

    aliases: Mapping[str, str] = field(init=False, repr=False, compare=False)
    """Maps sent methods to methods, including opted-in legacy verbs; the alias gate uses it."""

    admits_everything: bool = field(init=False, repr=False, compare=False)
    """Whether :meth:`admits` is always true and :meth:`redirect` always None."""

    _targets: Mapping[tuple[str, str | None], Redirect] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        opted_in = {verb: LEGACY_METHODS[verb] for verb in self.legacy}
        targets = {(entry.from_method, entry.from_path): entry for entry in self.redirects}
        open_to_all = self.allow is None and not self.disallow and not self.redirects
        object.__setattr__(self, "aliases", MappingProxyType(opted_in | dict(self.declared_aliases)))
        object.__setattr__(self, "admits_everything", open_to_all)
        object.__setattr__(self, "_targets", targets)

    def admits(self, method: str) -> bool:
        """Return whether a method may be called, after aliases; ``disallow`` takes precedence."""
        if method in self.disallow:
            return False
        return self.allow is None or method in self.allow or method in FLOOR

    def redirect(self, method: str, path: str) -> tuple[str, str] | None:
        """
        Return the method and path that a request is redirected to; None if no entry applies.

        An entry for this path takes precedence over one for every path. :meth:`admits` applies to the target as well
        (AGTP-API section 9.2).
        """
        entry = self._targets.get((method, path)) or self._targets.get((method, None))
        if entry is None:
            return None
        return entry.to_method, path if entry.to_path is None else entry.to_path

    def redirects_at(self, path: str) -> dict[str, str]:
        """Return the redirects that apply on ``path``, from method to method, for a 405 (AGTP-API section 11)."""
        everywhere = {e.from_method: e.to_method for e in self.redirects if e.from_path is None}
        here = {e.from_method: e.to_method for e in self.redirects if e.from_path == path}
        return everywhere | here

    def resolve(self, method: str, path: str) -> Resolved:
        """Apply alias, admission, redirect and the target's admission, in the dispatcher's order."""
        canonical = self.aliases.get(method, method)
        admitted = self.admits(canonical)
        target = self.redirect(canonical, path) if admitted else None
        final_method, final_path = target or (canonical, path)
        return Resolved(
            method=final_method,
            path=final_path,
            requested_method=None if final_method == method else method,
            admitted=admitted and self.admits(final_method),
        )

    @property
    def legacy_acts(self) -> frozenset[str]:
        """Return the opted-in HTTP verbs that no alias maps, which act as AGTP-API section 3.6 defines."""
        return frozenset(self.legacy) - frozenset(self.declared_aliases)

    def legacy_parameters(self, requested_method: str | None) -> Mapping[str, str]:
        """Return the parameters that an opted-in legacy verb adds: DELETE and PATCH add their ``action``."""
        if requested_method not in self.legacy_acts:
            return {}
        action = LEGACY_ACTIONS.get(requested_method)
        return {"action": action} if action else {}

    def demands_key(self, requested_method: str | None) -> bool:
        """
        Return whether the verb is PUT acting as EXECUTE, which requires ``idempotency_key`` (AGTP-API section 3.6).
        """
        return requested_method == "PUT" and "PUT" in self.legacy_acts

    def document(self) -> dict[str, Any]:
        """Return ``policies.methods`` of the manifest (AGTP-API section 9.3)."""
        legacy: Any = "*" if set(self.legacy) == set(LEGACY) else list(self.legacy) or "NONE"
        document = {
            "allow": "*" if self.allow is None else sorted(self.allow),
            "disallow": sorted(self.disallow),
            "legacy": legacy,
            "aliases": dict(sorted(self.declared_aliases.items())),
            "redirects": [entry.model_dump(exclude_none=True) for entry in self.redirects],
        }
        return document | ({"profiles": list(self.profiles)} if self.profiles else {})


@dataclass(frozen=True, kw_only=True)
class PolicyReading:
    """The result of reading a configured policy."""

    policy: MethodPolicy
    """The policy without skipped and wrong entries."""

    errors: tuple[Problem, ...] = ()
    """Faults that prevent the host's start."""

    warnings: tuple[Problem, ...] = ()
    """Entries that have no effect."""


def read_policy(
    catalog: Catalog,
    given: Section,
    *,
    custom: Sequence[str] | None = None,
    registered: Collection[str] = (),
    wildcards_accepted: bool = False,
) -> PolicyReading:
    """
    Check ``[policies.methods]`` against a catalog.

    :param custom: methods that the catalog lacks, including those of declared profiles; None: those of ``given``.
    :param registered: methods that count as known: those of endpoints, and of other supported catalog versions.
    :param wildcards_accepted: ``[policies] wildcards_accepted``.
    """
    return _PolicyReader(catalog, given.custom if custom is None else custom, registered).read(
        given, wildcards_accepted
    )


class _PolicyReader:
    def __init__(self, catalog: Catalog, custom: Sequence[str], registered: Collection[str]) -> None:
        self._catalog = catalog
        self._errors: list[Problem] = []
        self._warnings: list[Problem] = []
        self._custom = frozenset(self._customs(custom))
        self._known = catalog.methods | self._custom | frozenset(registered)

    def read(self, given: Section, wildcards_accepted: bool) -> PolicyReading:
        admitted = None if given.allow == "*" else frozenset(self._names("allow", given.allow))
        verbs = LEGACY if given.legacy == "*" else () if given.legacy == "NONE" else given.legacy
        kept = dict(self._aliases(given.aliases))
        refused = frozenset(self._read_disallowed(given.disallow, kept, verbs))
        policy = MethodPolicy(
            allow=admitted,
            disallow=refused,
            legacy=tuple(verbs),
            declared_aliases=MappingProxyType(kept),
            redirects=tuple(self._redirects(given.redirects)),
            custom=self._custom,
            profiles=given.profiles,
            wildcards_accepted=wildcards_accepted,
        )
        return PolicyReading(policy=policy, errors=tuple(self._errors), warnings=tuple(self._warnings))

    def _error(self, message: str, hint: str = "") -> None:
        self._errors.append(Problem(message=f"[policies.methods] {message}", hint=hint))

    def _warn(self, message: str) -> None:
        self._warnings.append(Problem(message=f"[policies.methods] {message}"))

    def _skip(self, message: str) -> None:
        self._warn(f"{message}; the entry has no effect")

    def _customs(self, names: Sequence[str]) -> Iterator[str]:
        for name in names:
            if name in LEGACY:
                self._error(f"custom: {name} is an HTTP verb", "opt in with legacy, or map it with aliases")
            else:
                yield name

    def _names(self, key: str, names: Iterable[str]) -> Iterator[str]:
        for name in names:
            if name not in self._known:
                self._skip(f"{key}: {name} is not in catalog {self._catalog.version}")
            else:
                yield name

    def _read_disallowed(self, names: Sequence[str], aliases: Mapping[str, str], verbs: Sequence[str]) -> Iterator[str]:
        """
        Yield the methods of ``disallow``; it is compared after aliases, so an alias in it never matches (spec reading
        43).
        """
        plain = []
        for name in names:
            if name in aliases:
                self._skip(f"disallow: {name} is an alias; list its method {aliases[name]} instead")
            elif name in verbs:
                acted = LEGACY_METHODS[name]
                self._skip(f"disallow: {name} is opted in by legacy and acts as {acted}; list {acted} instead")
            else:
                plain.append(name)
            if name in FLOOR:
                self._warn(f"disallow: {name} is a method that every host supports; remove it from the list")
        yield from self._names("disallow", plain)

    def _aliases(self, aliases: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        for name, target in aliases.items():
            if target in aliases:
                hint = "name the final method"
                self._error(f"aliases: {name} leads to {target}, which is itself an alias", hint)
            elif name in self._known:
                self._error(
                    f"aliases: {name} is the name of a method",
                    "leave it out, and write a redirect from it under redirects",
                )
            elif target not in self._known:
                version = self._catalog.version
                self._skip(f"aliases: {name} leads to {target}, which is not in catalog {version}")
            else:
                yield name, target

    def _redirects(self, entries: Sequence[Redirect]) -> Iterator[Redirect]:
        seen: set[tuple[str, str | None]] = set()
        for entry in entries:
            key = entry.from_method, entry.from_path
            where = f"redirects: {entry.from_method} {entry.from_path or 'on every path'}"
            if key in seen:
                self._error(f"{where} has two entries", "remove one of them")
            elif self._is_chained(entry, entries):
                self._error(
                    f"{where} leads to a method and path that are redirected again", "name the final method and path"
                )
            elif self._sound(entry, where):
                yield entry
            seen.add(key)

    def _sound(self, entry: Redirect, where: str) -> bool:
        faults = len(self._errors)
        for path in (entry.from_path, entry.to_path):
            if path is not None:
                for fault in template_faults(path, self._catalog.methods):
                    self._error(f"{where}: {fault}")
                if "{" in path:
                    self._error(
                        f"{where}: {path[:64]!r} is a template, but redirects compare whole paths",
                        "write one redirect for each path",
                    )
        names = tuple(self._names("redirects", (entry.from_method, entry.to_method)))
        return len(self._errors) == faults and len(names) == 2

    @staticmethod
    def _is_chained(entry: Redirect, entries: Sequence[Redirect]) -> bool:
        """Return whether a redirect, including this one, applies to the target of ``entry``."""
        path = entry.to_path if entry.to_path is not None else entry.from_path
        return any(
            other.from_method == entry.to_method
            and (other.from_path is None or path is None or other.from_path == path)
            for other in entries
        )
