"""
Make plugins: parts from an operator's own packages, found by name (``docs/extending``).

An entry point of the group ``agtphost.plugins`` names a factory. It is called with the settings of the entry that names
the plugin, and its result must provide the interface of that entry. Errors are found before the host starts, and
reported with the line that names the plugin.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, PackageNotFoundError, distribution, entry_points
from typing import Any

from zope.interface import Interface
from zope.interface.exceptions import BrokenImplementation, Invalid
from zope.interface.verify import verifyObject

from agtphost.config import Config, problems_in
from agtphost.config.faults import ConfigFault
from agtphost.config.plugins import GateSection, PluginSection
from agtphost.errors import Problem
from agtphost.host.plugin_settings import UnusableSchema, WrongSettings, read_settings
from agtphost.iagtp import IOperatorGate, IPayloadAdapter, IPluggableStore, IRecordObserver, IWitness
from agtphost.vocabulary.tomltext import Location

GROUP = "agtphost.plugins"

OPTIONAL_MEMBERS = frozenset({"call_of", "hosted_protocols"})
"""
Methods that older payload adapters lack; :mod:`agtphost.adapters.operator_adapter` supports adapters without them.
"""


class UnusablePlugin(Exception):
    """
    A plugin that cannot be used; the message says why.

    :param hint: what to do; may be empty.
    :param settings: whether its settings are wrong.
    :param faults: faults of single settings, with locations within them; empty if they are not known.
    """

    def __init__(
        self, message: str, hint: str = "", *, settings: bool = False, faults: Sequence[ConfigFault] = ()
    ) -> None:
        super().__init__(message)
        self.hint = hint
        self.settings = settings
        self.faults = tuple(faults)


Factory = Callable[[Any], Any]
"""Makes a plugin from its settings: a dictionary, or an instance of the dataclass that it declares for them."""


def find_factory(
    name: str, group: str = GROUP, *, what: str = "plugin", is_own: bool = False
) -> tuple[str, Callable[..., Any]]:
    """
    Import the factory of a plugin or feature.

    :param name: of its entry point.
    :param group: of its entry point.
    :param what: what messages call it.
    :param is_own: whether it is one of this distribution, or one of any other.
    :return: what the entry point names, as text, and the factory.
    :raises UnusablePlugin: it is missing, two packages have it, or it cannot be imported.
    """
    found = list(_own_points().select(group=group, name=name) if is_own else _foreign_points(group, name))
    if not found:
        if is_own:
            raise UnusablePlugin(
                f"the installed distribution of agtphost has no {what} {name} (entry points of the group {group})",
                "install agtphost again",
            )
        known = sorted({point.name for point in _foreign_points(group)})
        close = difflib.get_close_matches(name, known, 1)
        hint = f'did you mean "{close[0]}"?' if close else f"installed: {', '.join(known[:20]) or 'none'}"
        raise UnusablePlugin(
            f"no installed package has a {what} {name[:64]!r} (entry points of the group {group})", hint
        )
    if len(found) > 1:
        names = sorted(point.dist.name if point.dist else "?" for point in found)
        raise UnusablePlugin(
            f"more than one package has a {what} {name[:64]!r}: {', '.join(names)}", "uninstall all but one"
        )
    (point,) = found
    try:
        factory = point.load()
    except (Exception, SystemExit) as error:
        raise UnusablePlugin(f"the {what} {name} ({point.value}) cannot be imported: {error!r}") from error
    if not callable(factory):
        raise UnusablePlugin(
            f"the {what} {name} ({point.value}) is not callable",
            "let the entry point name a class or a function",
        )
    return point.value, factory


DISTRIBUTION = "agtphost"


@cache
def _own_points() -> EntryPoints:
    """Return the entry points of this distribution; a search of all distributions takes ten times as long."""
    try:
        return distribution(DISTRIBUTION).entry_points
    except PackageNotFoundError:
        return EntryPoints()


def _foreign_points(group: str, name: str | None = None) -> list[EntryPoint]:
    """Return the entry points of all other distributions."""
    found = entry_points(group=group) if name is None else entry_points(group=group, name=name)
    return [point for point in found if point.dist is None or point.dist.name != DISTRIBUTION]


def make_plugin(
    name: str, settings: Mapping[str, Any], interface: type[Interface], given: Mapping[str, Factory] | None = None
) -> Any:
    """
    Make a plugin.

    :param name: of its entry point.
    :param settings: passed to its factory after they were checked against its declaration.
    :param interface: the interface it must provide.
    :param given: factories that are not installed, by name; they precede entry points.
    :raises UnusablePlugin: the plugin is missing, two packages have it, it cannot be imported or made, or lacks the
        interface.
    """
    value, factory = ("given", given[name]) if given and name in given else find_factory(name)
    what = f"the plugin {name} ({value})"
    try:
        read = read_settings(factory, settings)
    except UnusableSchema as error:
        raise UnusablePlugin(f"{what} cannot be used: its {error}", "ask its author for another version") from None
    except WrongSettings as error:
        raise UnusablePlugin(f"{what} cannot be made: {error}", settings=True, faults=error.faults) from None
    try:
        made = factory(read)
    except (Exception, SystemExit) as error:
        raise UnusablePlugin(f"{what} cannot be made: {error!r}", settings=True) from error
    wanted = interface.__name__
    if not interface.providedBy(made):
        raise UnusablePlugin(
            f"{what} does not provide {wanted}", f"decorate its class with implementer({wanted}) of agtphost.plugin"
        )
    try:
        verifyObject(interface, made)
    except Invalid as error:
        if interface is IPayloadAdapter and _only_missing(OPTIONAL_MEMBERS, error):
            return made
        told = " ".join(str(error).split())
        raise UnusablePlugin(f"{what} does not implement {wanted}: {told}") from None
    return made


def _only_missing(names: Collection[str], error: Invalid) -> bool:
    """Return whether an object lacks only members with these names of an interface."""
    faults = getattr(error, "exceptions", (error,))
    return all(
        isinstance(each, BrokenImplementation) and getattr(each.name, "__name__", each.name) in names for each in faults
    )


@dataclass(frozen=True, kw_only=True)
class Plugins:
    """The plugins that ``host.toml`` names."""

    gates: Sequence[tuple[GateSection, IOperatorGate]] = ()
    adapters: Sequence[IPayloadAdapter] = ()
    witnesses: Sequence[IWitness] = ()
    observers: Sequence[tuple[str, IRecordObserver]] = ()
    store: IPluggableStore | None = None


def make_plugins(config: Config, problems: list[Problem], given: Mapping[str, Factory] | None = None) -> Plugins:
    """
    Make every plugin that ``host.toml`` names, except those of endpoints, which are made with their endpoints.

    :param given: factories that are not installed, by name.
    :param problems: collects problems, with file and line.
    """
    faults: list[ConfigFault] = []

    def one(name: str, settings: Mapping[str, Any], interface: type[Interface], place: Location) -> Any:
        try:
            return make_plugin(name, settings, interface, given)
        except UnusablePlugin as error:
            if error.faults:
                faults.extend(replace(each, location=(*place, "settings", *each.location)) for each in error.faults)
                return None
            key = "settings" if error.settings and settings else "plugin"
            faults.append(
                ConfigFault(
                    location=(*place, key), message=f"names a plugin that cannot be used: {error}", hint=error.hint
                )
            )
            return None

    def make_all(sections: Sequence[PluginSection], interface: type[Interface], *place: str) -> list[tuple[Any, Any]]:
        every = [
            (section, one(section.plugin, section.settings, interface, (*place, at)))
            for at, section in enumerate(sections)
        ]
        return [(section, each) for section, each in every if each is not None]

    store = config.store
    result = Plugins(
        gates=make_all(config.gate, IOperatorGate, "gate"),
        adapters=[each for _, each in make_all(config.adapter, IPayloadAdapter, "adapter")],
        witnesses=[each for _, each in make_all(config.audit.witness_plugin, IWitness, "audit", "witness_plugin")],
        observers=[(section.plugin, each) for section, each in make_all(config.observer, IRecordObserver, "observer")],
        store=None if store.plugin is None else one(store.plugin, store.settings, IPluggableStore, ("store",)),
    )
    problems.extend(problems_in(config.file, faults))
    return result
