"""
Build the features of a configuration, and take what they contribute.

A contribution that contradicts another part of the host is refused with the location of the feature's section, before
anything of the configuration is in force.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twisted.application.service import IService

from agtphost.config import Config, problems_in
from agtphost.config.faults import ConfigFault
from agtphost.config.plugins import FeatureHttp
from agtphost.config.surfaces import FEATURE, surfaces
from agtphost.contract.binding import Binding
from agtphost.dispatch.tracing import Tracer
from agtphost.errors import ConfigurationError, Problem
from agtphost.features import Contribution, PlacedGate, Services
from agtphost.handlers.built_in import Target
from agtphost.host.feature_loading import LoadedFeature
from agtphost.host.registry import RESERVED_TARGETS
from agtphost.host.services import HostServices
from agtphost.http.served_surface import ServedSurface
from agtphost.iagtp import IOperatorGate, IRemoteWitness
from agtphost.identity.keys import VerifyingKey
from agtphost.stores import StoreError
from agtphost.vocabulary.tomltext import Location


@dataclass(frozen=True, kw_only=True)
class FeatureSet:
    """The features of one configuration, by the locations of their sections."""

    contributions: Mapping[Location, Contribution] = field(default_factory=dict)

    @property
    def bindings(self) -> Iterator[Binding]:
        """Yield what the features bind."""
        return (binding for each in self.contributions.values() for binding in each.bindings)

    @property
    def services(self) -> Sequence[Any]:
        """Return the services of all features."""
        return [service for each in self.contributions.values() for service in each.services]

    @property
    def surfaces(self) -> Sequence[ServedSurface]:
        """Return the HTTP surfaces of all features."""
        return [surface for each in self.contributions.values() for surface in each.surfaces]

    @property
    def witnesses(self) -> Sequence[IRemoteWitness]:
        """Return the witnesses of this host's checkpoints."""
        return [witness for each in self.contributions.values() for witness in each.witnesses]

    @property
    def activations(self) -> Sequence[Callable[[], None]]:
        """Return what is called in the turn of the reactor in which this configuration replaces another one."""
        return [each.activate for each in self.contributions.values() if each.activate is not None]

    @property
    def tracer(self) -> Tracer | None:
        """Return what makes the spans of calls; None where tracing is off."""
        return next((each.tracer for each in self.contributions.values() if each.tracer is not None), None)

    def witness_ages(self) -> dict[str, float]:
        """Return how many seconds a checkpoint has been waiting for each witness."""
        return {each.name: each.age for each in self.witnesses}

    def witness_keys(self) -> list[tuple[str, VerifyingKey]]:
        """Return addresses and known keys of the witnesses, without asking any of them."""
        return [(each.name, key) for each in self.witnesses for key in each.known_keys]


NO_FEATURES = FeatureSet()


def build_features(services: HostServices, before: FeatureSet = NO_FEATURES) -> FeatureSet:
    """
    Build every feature of a configuration. Nothing is started.

    :param before: the features of the configuration in force.
    :raises ConfigurationError: a feature cannot be built, or two contradict each other.
    """
    shared, faults, problems = _services(services), list[ConfigFault](), list[Problem]()
    made: dict[Location, Contribution] = {}
    for each in services.loaded.features:
        previous = before.contributions.get(each.location, Contribution()).carried
        try:
            made[each.location] = _build(each, shared, previous)
        except StoreError:
            raise
        except ConfigurationError as error:
            problems += error.problems
        except (Exception, SystemExit) as error:
            faults.append(ConfigFault(location=each.location, message=f"cannot be built: {error!r}"))
    problems += problems_in(services.config.file, [*faults, *_contradictions(services, made)])
    if problems:
        raise ConfigurationError(problems)
    return FeatureSet(contributions=made)


_MEMBERS: Sequence[tuple[str, str, Callable[[object], bool]]] = (
    ("bindings", "Binding", lambda value: isinstance(value, Binding)),
    ("gates", "PlacedGate", lambda value: isinstance(value, PlacedGate)),
    ("services", "provider of IService", IService.providedBy),
    ("surfaces", "ServedSurface", lambda value: isinstance(value, ServedSurface)),
)
"""Fields of a contribution, what each of their values is, and a function that tells."""


def _build(loaded: LoadedFeature, services: Services, previous: object) -> Contribution:
    made = loaded.feature.build(loaded.find_settings(services.config), services, previous)
    if not isinstance(made, Contribution):
        raise TypeError(f"build returned {type(made).__name__} instead of a Contribution")
    for name, what, fits in _MEMBERS:
        values = getattr(made, name)
        if not isinstance(values, Sequence):
            raise TypeError(f"build returned {name} that is not a sequence: {values!r:.64}")
        for value in values:
            if not fits(value):
                raise TypeError(f"build returned {name} with {value!r:.64}, which is not a {what}")
    if not isinstance(made.inspect_targets, Mapping) or not all(map(callable, made.inspect_targets.values())):
        raise TypeError("build returned inspect_targets that are not functions by name")
    if made.activate is not None and not callable(made.activate):
        raise TypeError(f"build returned activate that is not a function: {made.activate!r:.64}")
    return made


def _services(services: HostServices) -> Services:
    """Return what features are built from."""
    loaded, evidence = services.loaded, services.evidence
    return Services(
        config=services.config,
        reactor=services.reactor,
        clock=services.seconds,
        ledger=evidence.ledger,
        state=evidence.held,
        records=evidence.records,
        authorization=services.authorization,
        key=loaded.key,
        directory=loaded.directory,
        table=services.registry,
        host=services.lasting.host,
    )


def _contradictions(services: HostServices, made: Mapping[Location, Contribution]) -> Iterator[ConfigFault]:
    """Yield a fault for each feature that contributes what another one has, or what the host cannot take."""
    known = {surface.name for surface in surfaces(services.config)}
    served = Counter(surface.name for each in made.values() for surface in each.surfaces)
    tracers = sum(each.tracer is not None for each in made.values())
    for location, each in made.items():
        own = FEATURE.format(location[-1]) if len(location) > 1 else ""
        for surface in each.surfaces:
            if surface.name not in known | {own} or served[surface.name] > 1:
                why = "which another feature has" if surface.name in known else "which this host does not have"
                yield ConfigFault(location=location, message=f"has an HTTP surface {surface.name[:64]!r}, {why}")
        if own in known and not served[own]:
            yield ConfigFault(location=(*location, "http"), message="is for a feature that answers nothing over HTTP")
        for placed in each.gates:
            if not IOperatorGate.providedBy(placed.gate):
                yield ConfigFault(
                    location=location, message=f"has a gate that does not implement IOperatorGate: {placed.gate!r:.64}"
                )
        if each.tracer is not None and tracers > 1:
            yield ConfigFault(location=location, message="makes spans of calls, as another feature does")


def add_targets(services: HostServices, features: FeatureSet) -> None:
    """
    Add the INSPECT targets of features to those of the host, which are known now.

    :raises ConfigurationError: a name is taken.
    """
    faults = []
    for location, each in features.contributions.items():
        targets: Mapping[str, Target] = each.inspect_targets
        taken = sorted(targets.keys() & (services.registry.targets.keys() | RESERVED_TARGETS))
        faults += [
            ConfigFault(location=location, message=f"has the target {name[:64]!r} of INSPECT, which is taken")
            for name in taken
        ]
        services.registry.add_targets({name: read for name, read in targets.items() if name not in taken})
    _refuse(services, faults)


def require_same_after_start(
    services: HostServices, running: FeatureSet, candidate: FeatureSet, before: Config
) -> None:
    """
    Refuse a configuration whose features have other surfaces or witnesses than the host was started with.

    :param before: the configuration in force, of the running features.
    :raises ConfigurationError: it has.
    """
    faults = []
    for location in {**running.contributions, **candidate.contributions}:
        old, new = (each.contributions.get(location, Contribution()) for each in (running, candidate))
        for what, had, has in (
            ("HTTP surfaces", _list_served(before, old), _list_served(services.config, new)),
            ("witnesses", [id(each) for each in old.witnesses], [id(each) for each in new.witnesses]),
        ):
            if had != has:
                message = f"changes the {what} of its feature, which only a start of the host takes"
                faults.append(ConfigFault(location=location, message=message, hint="restart the host"))
    _refuse(services, faults)


def _list_served(config: Config, made: Contribution) -> list[tuple[int, FeatureHttp | None]]:
    """
    Return the identities of the resources that a feature serves, with what ``[feature.NAME.http]`` says.

    The keys of the host's own sections that only a start takes are compared by :mod:`agtphost.config.reloadable_keys`.
    """
    sections = {each.name: each.section for each in surfaces(config)}
    found = [(each, sections[each.name]) for each in made.surfaces if each.name in sections]
    return [(id(each), section if isinstance(section, FeatureHttp) else None) for each, section in found]


def _refuse(services: HostServices, faults: Sequence[ConfigFault]) -> None:
    if faults:
        raise ConfigurationError(problems_in(services.config.file, faults))
