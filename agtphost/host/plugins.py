"""
Plugins: what an operator's own packages provide, found by name (``docs/extending``).

An entry point of the group ``agtphost.plugins`` names a factory. It is called
with the settings of the place that names it, and what it returns has to
provide that place's interface. Everything that can be wrong with one is found
before the host starts, and told with the line that names it.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

from zope.interface import Interface
from zope.interface.exceptions import BrokenImplementation, Invalid
from zope.interface.verify import verifyObject

from agtphost.config import Config
from agtphost.config.faults import ConfigFault
from agtphost.config.plugins import GateSection, PluginSection
from agtphost.config.reading import read
from agtphost.errors import Problem
from agtphost.iagtp import IGate, IPayloadAdapter, IPluggableStore, IRecordObserver, IWitness
from agtphost.vocabulary.tomltext import Location

GROUP = "agtphost.plugins"


class Unusable(Exception):
    """
    A plugin that cannot be used; the message says why.

    :param hint: what may help; may be empty.
    :param settings: whether it is its settings that are wrong.
    """

    def __init__(self, message: str, hint: str = "", *, settings: bool = False) -> None:
        super().__init__(message)
        self.hint = hint
        self.settings = settings


def make(name: str, settings: Mapping[str, Any], interface: type[Interface]) -> Any:
    """
    One plugin.

    :param name: of its entry point.
    :param settings: what its factory is called with.
    :param interface: what it has to provide.
    :raises Unusable: it is missing, two packages have it, it cannot be imported or made, or is something else.
    """
    found = entry_points(group=GROUP, name=name)
    if not found:
        known = sorted({point.name for point in entry_points(group=GROUP)})
        close = difflib.get_close_matches(name, known, 1)
        hint = f'did you mean "{close[0]}"?' if close else f"installed: {', '.join(known[:20]) or 'none'}"
        raise Unusable(f"no installed package has a plugin {name[:64]!r} (entry points of the group {GROUP})", hint)
    if len(found) > 1:
        names = sorted(point.dist.name if point.dist else "?" for point in found)
        raise Unusable(f"more than one package has a plugin {name[:64]!r}: {', '.join(names)}", "uninstall all but one")
    (point,) = found
    try:
        factory = point.load()
    except (Exception, SystemExit) as error:
        raise Unusable(f"the plugin {name} ({point.value}) cannot be imported: {error!r}") from error
    if not callable(factory):
        raise Unusable(f"the plugin {name} ({point.value}) is not callable", "name a class, or a function of settings")
    try:
        made = factory(dict(settings))
    except (Exception, SystemExit) as error:
        raise Unusable(f"the plugin {name} ({point.value}) cannot be made: {error!r}", settings=True) from error
    wanted = interface.__name__
    if not interface.providedBy(made):
        raise Unusable(
            f"the plugin {name} ({point.value}) does not provide {wanted}",
            f"decorate its class with implementer({wanted})",
        )
    try:
        verifyObject(interface, made)
    except Invalid as error:
        if interface is IPayloadAdapter and _only_missing("call_of", error):
            # Written before there was call_of: its tools are listed as far as their bindings name an action.
            return made
        told = " ".join(str(error).split())
        raise Unusable(f"the plugin {name} ({point.value}) is no {wanted}: {told}") from None
    return made


def _only_missing(name: str, error: Invalid) -> bool:
    """Whether all that an object has not of an interface is one method."""
    faults = getattr(error, "exceptions", (error,))
    return all(
        isinstance(each, BrokenImplementation) and getattr(each.name, "__name__", each.name) == name for each in faults
    )


@dataclass(frozen=True, kw_only=True)
class Plugins:
    """What ``host.toml`` names, made."""

    gates: Sequence[tuple[GateSection, IGate]] = ()
    adapters: Sequence[IPayloadAdapter] = ()
    witnesses: Sequence[IWitness] = ()
    observers: Sequence[tuple[str, IRecordObserver]] = ()
    store: IPluggableStore | None = None


def plugins(config: Config, problems: list[Problem]) -> Plugins:
    """
    Make every plugin that ``host.toml`` names; those of endpoints are made with their endpoints.

    :param problems: takes what is wrong, with file and line.
    """
    faults: list[ConfigFault] = []

    def one(name: str, settings: Mapping[str, Any], interface: type[Interface], place: Location) -> Any:
        try:
            return make(name, settings, interface)
        except Unusable as error:
            key = "settings" if error.settings and settings else "plugin"
            faults.append(
                ConfigFault(location=(*place, key), message=f"names what cannot be used: {error}", hint=error.hint)
            )

    def made(sections: Sequence[PluginSection], interface: type[Interface], *place: str) -> list[tuple[Any, Any]]:
        every = [
            (section, one(section.plugin, section.settings, interface, (*place, at)))
            for at, section in enumerate(sections)
        ]
        return [(section, each) for section, each in every if each is not None]

    store = config.store
    result = Plugins(
        gates=made(config.gate, IGate, "gate"),
        adapters=[each for _, each in made(config.adapter, IPayloadAdapter, "adapter")],
        witnesses=[each for _, each in made(config.audit.witness_plugin, IWitness, "audit", "witness_plugin")],
        observers=[(section.plugin, each) for section, each in made(config.observer, IRecordObserver, "observer")],
        store=None if store.plugin is None else one(store.plugin, store.settings, IPluggableStore, ("store",)),
    )
    problems.extend(problems_of(config, faults))
    return result


def problems_of(config: Config, faults: Sequence[ConfigFault]) -> list[Problem]:
    """Faults with the lines of their keys; the file is read again for them alone."""
    return read(config.file).problems(faults) if faults else []
