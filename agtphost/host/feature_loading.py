"""
Find the features that a configuration switches on, and check their settings (``docs/extending/feature``).

The host's own features and those of other packages are entry points of one group. Nothing of a feature is imported
unless the configuration has its section.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from zope.interface.exceptions import Invalid
from zope.interface.verify import verifyObject

from agtphost.config import Config, problems_in
from agtphost.config.faults import ConfigFault
from agtphost.errors import Problem
from agtphost.features import IFeature
from agtphost.host.plugin_settings import UnusableSchema, WrongSettings, read_settings
from agtphost.host.plugins import UnusablePlugin, find_factory
from agtphost.vocabulary.tomltext import Location

GROUP = "agtphost.features"

HOST_FEATURES = ("traces", "metrics", "witness", "admin", "mcp", "gateway", "registry", "a2a")
"""The sections of :class:`agtphost.config.Config` for each of which this distribution has a feature of that name."""

FeatureFactory = Callable[[], Any]
"""Makes a feature: what an entry point of the group names."""


@dataclass(frozen=True, kw_only=True)
class LoadedFeature:
    """A feature that the configuration switches on, with its checked settings."""

    location: Location
    """The location of its section in the file."""

    feature: Any
    """The :class:`agtphost.features.IFeature`."""

    settings: Any = None
    """The checked settings of a feature of another package; the host's own have a section of the configuration."""

    def find_settings(self, config: Config) -> Any:
        """
        Return what :meth:`agtphost.features.IFeature.build` gets.

        :param config: the configuration in which it is built: a takeover leaves out what names agents it cannot admit.
        """
        return getattr(config, str(self.location[0])) if len(self.location) == 1 else self.settings


def load_features(
    config: Config, problems: list[Problem], given: Mapping[str, FeatureFactory] | None = None
) -> tuple[LoadedFeature, ...]:
    """
    Load every feature that a configuration switches on; callable in any thread.

    :param problems: collects problems, with file and line.
    :param given: factories of features that are not installed, by the names of their tables.
    """
    faults: list[ConfigFault] = []
    found = []
    for location, settings in _sections(config):
        try:
            feature = _make_feature(location, given or {})
            found.append(_read(location, feature, settings))
        except UnusablePlugin as error:
            faults += error.faults or [ConfigFault(location=location, message=str(error), hint=error.hint)]
    for each in found:
        faults += _check(each, config)
    problems.extend(problems_in(config.file, faults))
    return tuple(found)


def _sections(config: Config) -> Iterator[tuple[Location, Any]]:
    """Yield the location and the content of each section that a feature belongs to."""
    for name in HOST_FEATURES:
        section = getattr(config, name)
        if section is not None:
            yield (name,), section
    for name, table in config.feature.items():
        yield ("feature", name), table.settings


def _make_feature(location: Location, given: Mapping[str, FeatureFactory]) -> Any:
    """
    Import a feature and make it.

    :raises UnusablePlugin: it is missing, two packages have it, it cannot be imported or made, or lacks the interface.
    """
    name, is_own = str(location[-1]), len(location) == 1
    if name in given and not is_own:
        value, factory = "given", given[name]
    else:
        value, factory = find_factory(name, GROUP, what="feature", is_own=is_own)
    what = f"the feature {name} ({value})"
    try:
        made = factory()
    except (Exception, SystemExit) as error:
        raise UnusablePlugin(f"{what} cannot be made: {error!r}") from error
    try:
        verifyObject(IFeature, made)
    except Invalid as error:
        why = " ".join(str(error).split())
        hint = "decorate its class with implementer(IFeature) of agtphost.plugin"
        raise UnusablePlugin(f"{what} does not implement IFeature: {why}", hint) from None
    return made


def _read(location: Location, feature: Any, settings: Any) -> LoadedFeature:
    """
    Return a feature with its settings.

    :raises UnusablePlugin: the settings do not follow the schema of the feature, or that is none.
    """
    if len(location) > 1:
        try:
            checked = read_settings(feature, settings)
        except UnusableSchema as error:
            raise UnusablePlugin(f"the feature {location[-1]} cannot be used: its {error}") from None
        except WrongSettings as error:
            faults = [replace(each, location=(*location, *each.location)) for each in error.faults]
            raise UnusablePlugin(str(error), faults=faults) from None
        return LoadedFeature(location=location, feature=feature, settings=checked)
    return LoadedFeature(location=location, feature=feature)


def _check(loaded: LoadedFeature, config: Config) -> Iterable[ConfigFault]:
    """Return the faults that a feature finds, and a fault if it fails."""
    try:
        return list(loaded.feature.check(loaded.find_settings(config), config))
    except (Exception, SystemExit) as error:
        return [ConfigFault(location=loaded.location, message=f"cannot be checked by its feature: {error!r}")]
