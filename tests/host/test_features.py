"""What the host takes of features, and what it refuses, in memory: see also ``tests/system/test_features.py``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from importlib.metadata import EntryPoints
from pathlib import Path
from typing import Any

import pytest
from twisted.application.service import Service
from zope.interface import implementer
from zope.interface.verify import verifyObject

from agtphost.config import Config
from agtphost.config.faults import ConfigFault
from agtphost.config.surfaces import METRICS
from agtphost.contract.endpoint_table import AmbiguousEndpoints
from agtphost.errors import ConfigurationError
from agtphost.features import Contribution, IFeature, IRunningHost, PlacedGate, Services
from agtphost.host.feature_loading import LoadedFeature
from agtphost.host.host_loader import LoadedHost
from agtphost.host.server_pool import SharedServices
from agtphost.http.served_surface import ServedSurface
from agtphost.plugin import (
    Assurance,
    Binding,
    BuiltInContext,
    CallView,
    ForeignReason,
    IBuiltInHandler,
    IOperatorGate,
    Refusal,
    Status,
)
from agtphost.testing import MemoryHost
from agtphost.vocabulary.steps import run_to_end
from tests.host.test_generations import Made
from tests.system.hosting import sample

Build = Callable[[Services], Contribution]


@implementer(IFeature)
class Given:
    """A feature that contributes what a test says."""

    settings_schema = {"type": "object"}

    def __init__(self, build: Build) -> None:
        self._build = build

    def check(self, settings: Any, config: Config) -> Iterable[ConfigFault]:
        return ()

    def build(self, settings: Any, services: Services, previous: Any) -> Contribution:
        return self._build(services)


@implementer(IBuiltInHandler)
class Constant:
    kind = "constant"

    def handle(self, context: BuiltInContext) -> dict[str, int]:
        return {"a": 1}


async def read(context: BuiltInContext) -> dict[str, int]:
    return {"b": 2}


def host_of(*builds: Build) -> MemoryHost:
    """A host with a feature for each."""
    names = [f"given{number}" for number in range(len(builds))]
    features = {name: (lambda build=build: Given(build)) for name, build in zip(names, builds, strict=True)}
    return MemoryHost({"feature": {name: {} for name in names}}, features=features)


def bind(path: str) -> Contribution:
    return Contribution(bindings=[Binding.native("QUERY", path, Constant(), "It is constant.", Assurance.NONE)])


def test_a_host_in_memory_has_features() -> None:
    """Bindings and targets are answered; services run from its first use to its end."""
    service = Service()  # type: ignore[no-untyped-call]
    made = replace(bind("/constant"), inspect_targets={"given": read}, services=[service])
    host = host_of(lambda services: made)
    assert host.call("QUERY", "/constant").result == {"a": 1}
    assert host.call("INSPECT", input={"target": "given"}).result == {"b": 2}
    assert service.running
    host.close()
    assert not service.running


def refusal(*builds: Build) -> str:
    """Why a host with these features is not built."""
    with pytest.raises(ConfigurationError) as caught:
        _ = host_of(*builds).core
    return str(caught.value)


class Spans:
    """A tracer without spans."""

    lost_spans = {"dropped": 0, "undelivered": 0}

    def begin(self, exchange: Any) -> None:
        return None


def broken(services: Services) -> Contribution:
    raise RuntimeError("it rains")


def ends(services: Services) -> Contribution:
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"gates": None}, "gates that is not a sequence"),
        ({"gates": [5]}, "gates with 5, which is not a PlacedGate"),
        ({"bindings": ["QUERY"]}, "bindings with 'QUERY', which is not a Binding"),
        ({"services": [5]}, "services with 5, which is not a provider of IService"),
        ({"surfaces": [5]}, "surfaces with 5, which is not a ServedSurface"),
        ({"inspect_targets": {"given": 5}}, "inspect_targets that are not functions"),
        ({"activate": 5}, "activate that is not a function"),
    ],
)
def test_a_contribution_of_wrong_parts_names_the_feature_and_the_part(wrong: dict[str, Any], said: str) -> None:
    """It is not left to what uses the part to fail."""
    assert f"[feature] given0 cannot be built: TypeError('build returned {said}" in refusal(
        lambda services: replace(Contribution(), **wrong)
    ).replace('"', "'")


def test_a_check_that_ends_the_process_is_a_fault() -> None:
    """``agtp check`` and a reload go on, and name the feature."""

    class Ending(Given):
        def check(self, settings: Any, config: Config) -> Iterable[ConfigFault]:
            raise SystemExit(3)

    with pytest.raises(ConfigurationError) as caught:
        _ = MemoryHost({"feature": {"odd": {}}}, features={"odd": lambda: Ending(lambda services: Contribution())}).core
    assert "odd cannot be checked by its feature: SystemExit(3)" in str(caught.value)


def test_what_contradicts_the_host_is_refused_with_the_section() -> None:
    """Targets that are taken, surfaces that are not configured, a second tracer, and whatever is no contribution."""
    for name in ("audit", "records", "running", "vitals"):
        said = refusal(lambda services, name=name: Contribution(inspect_targets={name: read}))
        assert f"[feature] given0 has the target '{name}' of INSPECT, which is taken" in said, said
    twice = [lambda services: Contribution(inspect_targets={"given": read})] * 2
    assert "given1 has the target 'given' of INSPECT, which is taken" in refusal(*twice)
    surface = ServedSurface(name=METRICS, what="numbers", resource=None)
    assert "which this host does not have" in refusal(lambda services: Contribution(surfaces=[surface]))
    assert "makes spans of calls" in refusal(*[lambda services: Contribution(tracer=Spans())] * 2)
    assert "cannot be built: RuntimeError('it rains')" in refusal(broken)
    assert "build returned int instead of a Contribution" in refusal(lambda services: 7)  # type: ignore[arg-type,return-value]
    both = refusal(broken, ends, lambda services: Contribution(inspect_targets={"audit": read}))
    assert (
        "given0 cannot be built: RuntimeError('it rains')" in both and "given1 cannot be built: SystemExit(3)" in both
    )
    with pytest.raises(AmbiguousEndpoints):
        _ = host_of(lambda services: bind("/notifications")).core
    assert host_of(lambda services: Contribution(tracer=Spans())).call("DISCOVER").status == 200, "the control"


@implementer(IOperatorGate)
class Closed:
    """A gate that lets nothing pass at one path."""

    name = "closed"

    def check(self, call: CallView) -> None:
        if call.path == "/constant":
            raise Refusal(ForeignReason("closed", Status.CONFLICT), "It is closed.")


def test_gates_of_features_stand_where_they_say() -> None:
    """One refuses a call; a place that cannot be, and what is no gate, are refused with the section."""
    host = host_of(lambda services: replace(bind("/constant"), gates=[PlacedGate(gate=Closed())]))
    answer = host.call("QUERY", "/constant")
    assert (answer.status, answer.reason) == (409, "closed")
    names = [each.name for each in host.core.admission.gates]
    assert names[names.index("schema") + 1] == "operator: closed"
    assert host.call("DISCOVER").status == 200, "the control"
    early = PlacedGate(gate=Closed(), after="framing")
    said = refusal(lambda services: Contribution(gates=[early]))
    assert "given0 has a gate at a place that cannot be: 'framing' is not a gate that another can follow" in said
    assert "does not implement IOperatorGate" in refusal(
        lambda services: Contribution(gates=[PlacedGate(gate=Constant())])
    )


def test_http_resource_of_a_feature_needs_both_sides() -> None:
    """A section for a feature without a resource is refused; a resource without a section is not served."""
    surface = ServedSurface(name="feature.given", what="numbers", resource=None)
    given: dict[str, Any] = {"feature": {"given": {"http": {"listen": "tcp:8080:interface=127.0.0.1"}}}}
    with pytest.raises(ConfigurationError) as caught:
        _ = MemoryHost(given, features={"given": lambda: Given(lambda services: Contribution())}).core
    assert "[feature] given http is for a feature that answers nothing over HTTP" in str(caught.value)
    serving = {"given": lambda: Given(lambda services: Contribution(surfaces=[surface]))}
    for settings in (given, {"feature": {"given": {}}}):
        assert list(MemoryHost(settings, features=serving).core.features.surfaces) == [surface]
    with pytest.raises(ConfigurationError):
        _ = MemoryHost({"feature": {"other": {}}}, features={"other": serving["given"]}).core


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        (lambda: broken(None), "cannot be made: RuntimeError('it rains')"),  # type: ignore[arg-type]
        (object, "does not implement IFeature"),
    ],
)
def test_what_is_no_feature_is_refused(factory: Callable[[], Any], said: str) -> None:
    """Before anything is built."""
    with pytest.raises(ConfigurationError) as caught:
        _ = MemoryHost({"feature": {"odd": {}}}, features={"odd": factory}).core
    assert said in str(caught.value)


def test_a_feature_of_the_host_that_is_not_installed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A section without what it is for would be silently off."""
    monkeypatch.setattr("agtphost.host.plugins._own_points", EntryPoints)
    with pytest.raises(ConfigurationError) as caught:
        _ = MemoryHost().core
    assert "the installed distribution of agtphost has no feature witness" in str(caught.value)
    assert "install agtphost again" in str(caught.value)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    yield Made(sample(tmp_path_factory.mktemp("features")))


def test_features_of_the_host_go_on_over_a_reload(tmp_path: Path) -> None:
    """The counts, the tracer, the witnesses and the listener's resource are the same objects."""
    more = '\n[traces]\nendpoint = "http://127.0.0.1:9"\n[metrics]\n[audit]\nwitnesses = ["agtp://127.0.0.1:9"]\n'
    made = Made(sample(tmp_path, append=more))
    before = made.generations.core.features
    made.another()
    after = made.generations.core.features
    assert after is not before
    for name in ("services", "surfaces", "witnesses"):
        old, new = getattr(before, name), getattr(after, name)
        assert old and all(a is b for a, b in zip(old, new, strict=True)), name
    assert before.tracer is after.tracer is not None


def with_feature(loaded: LoadedHost, build: Build) -> LoadedHost:
    given = LoadedFeature(location=("feature", "given"), feature=Given(build), settings={})
    return replace(loaded, features=(*loaded.features, given))


class Witness:
    """A witness that has seen nothing."""

    name, always, remedy, age, known_keys = "agtp://w.test", False, "", 0.0, ()

    def last(self) -> None:
        return None

    def saw(self, issued: Any) -> None:
        pass


def test_what_only_a_start_takes_refuses_a_reload(made: Made) -> None:
    """A witness that comes with a reload would not be asked; nothing of the candidate is left. Control: a service."""
    watched = made.watchers()
    loaded = with_feature(made.loaded, lambda services: Contribution(witnesses=[Witness()]))
    with pytest.raises(ConfigurationError) as caught:
        run_to_end(made.generations.compose(loaded))
    assert "changes the witnesses of its feature, which only a start of the host takes" in str(caught.value)
    assert made.watchers() == watched
    service = Service()  # type: ignore[no-untyped-call]
    loaded = with_feature(made.loaded, lambda services: Contribution(services=[service]))
    core = run_to_end(made.generations.compose(loaded))
    assert service.parent is None, "building it starts nothing"
    made.generations.discard(core)
    assert made.watchers() == watched


def test_activate_is_called_when_a_configuration_comes_into_force(made: Made) -> None:
    """Not for a candidate that is discarded, and no more once another configuration is in force."""
    called: list[str] = []
    loaded = with_feature(made.loaded, lambda services: Contribution(activate=lambda: called.append("activate")))
    made.generations.discard(run_to_end(made.generations.compose(loaded)))
    assert called == []
    core = run_to_end(made.generations.compose(loaded))
    made.generations.turn_to(core)
    assert called == ["activate"] and made.generations.core is core
    made.another()
    assert called == ["activate"]


def test_running_host_shows_the_configuration_in_force(made: Made) -> None:
    """It has what the interface says; what it shows changes with the configuration, and an unknown upstream is none."""
    host = made.generations.core.services.lasting.host
    assert verifyObject(IRunningHost, host)
    made.another()
    core = made.generations.core
    assert host.config is core.services.config and host.dispatcher.dispatch == core.admission.dispatcher.dispatch
    (name,) = (str(each.name) for each in core.connected.services)
    assert host.restart_upstream(name) and not host.restart_upstream("mcp.none")
    assert not host.end_call("none") and host.witness_keys() == []


def test_a_service_runs_from_the_first_user_to_the_last() -> None:
    """Whoever leaves; what was not started is not stopped, and what was never used is told as unused."""
    shared = SharedServices()
    shared.service.startService()  # type: ignore[no-untyped-call]
    one, other = Service(), Service()  # type: ignore[no-untyped-call,no-untyped-call]
    assert shared.start("a", [one]) == [one] and one.running
    assert shared.start("b", [one, other]) == [other]
    shared.stop(shared.leave("a", [one]))
    assert one.running
    assert shared.leave("candidate", [one]) == []
    unused = shared.leave("b", [one, other])
    assert unused == [one, other]
    shared.stop(unused)
    assert not one.running and not other.running
