"""One configuration after the other: what each leaves behind is nothing."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import pytest
from twisted.internet.defer import Deferred

from agtphost.config import Config, load
from agtphost.config.reloadable_keys import RESTART, WHOLE, merge_reloadable
from agtphost.contract.binding import Binding
from agtphost.handlers.function import UnresolvableFunction
from agtphost.handlers.modules import ModuleSet
from agtphost.host.evidence import keep_evidence
from agtphost.host.generations import COLLECT_AFTER, Generations
from agtphost.host.handler_factory import HandlerFactory
from agtphost.host.host_loader import load_host
from agtphost.host.services import HostServices
from agtphost.host.upstreams import UpstreamFactory
from agtphost.stores import MemoryStore
from agtphost.testing.ledger import PromptLedger
from agtphost.testing.reactor import MemoryReactor
from agtphost.vocabulary.steps import run_to_end
from tests.system.hosting import free_port, sample
from tests.system.test_feature_sections import CASES

TIMES = 40


class Made:
    """What a host makes its generations with; nothing of it is started."""

    def __init__(self, config: Path) -> None:
        self.loaded = load_host(load(config, {}), {})
        self.reactor = MemoryReactor()
        self.evidence = keep_evidence(self.loaded, self.reactor, MemoryStore(), PromptLedger)
        on = HostServices.for_host(self.loaded, self.reactor, self.evidence)
        making = UpstreamFactory(self.reactor, self.evidence, {})
        self.generations = Generations(on, making, HandlerFactory(self.reactor, 2, on.lasting.computing))
        self.evidence.ledger.start()

    def watchers(self) -> int:
        held, states = self.evidence.held, self.evidence.states
        return sum(map(len, held._watchers.values())) + len(states._watchers)

    def another(self, bound: Sequence[Binding] | None = None) -> None:
        core = run_to_end(self.generations.compose(self.loaded))
        core = core if bound is None else replace(core, bound=bound)
        begun = Deferred.fromCoroutine(self.generations.begin(core))
        self.reactor.settle()
        assert begun.called, "no server is starting"
        self.generations.turn_to(core)
        self.reactor.advance(0)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """One for all."""
    yield Made(sample(tmp_path_factory.mktemp("generations")))


def test_nothing_is_left_of_those_that_are_over(made: Made) -> None:
    """Watchers, dispatchers and servers are as many after many as after one; a candidate that is let go leaves none."""
    made.another()
    watched, seen = made.watchers(), [weakref.ref(made.generations.core.admission.dispatcher)]
    server = next(iter(made.generations.core.connected.mcp.servers.values()))
    for _ in range(TIMES):
        made.another()
        seen.append(weakref.ref(made.generations.core.admission.dispatcher))
        made.generations.discard(run_to_end(made.generations.compose(made.loaded)))
    assert sum(each() is not None for each in seen) <= COLLECT_AFTER + 1, "what is left is bounded without a collection"
    gc.collect()
    assert made.watchers() == watched and made.generations.unfinished == 1
    assert [each() is not None for each in seen] == [*[False] * TIMES, True]
    assert next(iter(made.generations.core.connected.mcp.servers.values())) is server, "it is configured as it was"


def test_features_that_continue_watch_once_after_a_reload(tmp_path: Path) -> None:
    """Of every feature of the host: what it carries is watched by the configuration in force alone."""
    config = sample(tmp_path)
    tables = [case.table.format(port=free_port()) for case in CASES]
    config.write_text("\n".join([config.read_text(), *tables]))
    made = Made(config)
    made.another()
    watched, features = made.watchers(), made.generations.core.features.contributions
    made.another()
    made.generations.discard(run_to_end(made.generations.compose(made.loaded)))
    assert made.watchers() == watched
    carried = made.generations.core.features.contributions["registry",].carried
    assert carried is not None and carried is features["registry",].carried


def test_what_many_endpoints_leave_is_collected_sooner(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """All at once it would hold everybody up; the control: of few it is left to come together."""
    collected: list[int] = []
    monkeypatch.setattr("agtphost.host.generations.gc", SimpleNamespace(collect=lambda: collected.append(1)))
    many = list(made.generations.core.bound)[:1] * COLLECT_AFTER * 50
    for _ in range(3):
        made.another(many)
    assert len(collected) >= 2, "two of them are over"
    made.another()
    collected.clear()
    made.another()
    made.another()
    assert not collected


def test_one_that_has_calls_lives_on(made: Made) -> None:
    """The control: what is held is not let go, and is once nothing holds it."""
    watched, first = made.watchers(), made.generations.core
    first.admission.dispatcher.under_way.hold()
    made.another()
    made.another()
    assert made.generations.unfinished == 2 and made.watchers() > watched
    assert made.generations.front.dispatch == made.generations.core.admission.dispatcher.dispatch
    first.admission.dispatcher.under_way.let_go()
    made.reactor.advance(0)
    assert made.generations.unfinished == 1 and made.watchers() == watched


def test_a_candidate_that_cannot_be_made_leaves_nothing(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it fails by."""
    watched = made.watchers()

    def fails(*_: object) -> None:
        raise RuntimeError("as late as can be")

    monkeypatch.setattr("agtphost.host.core.add_targets", fails)
    with pytest.raises(RuntimeError):
        run_to_end(made.generations.compose(made.loaded))
    assert made.watchers() == watched and made.generations.unfinished == 1


def test_every_key_that_waits_is_one() -> None:
    """A table or a key that is renamed cannot be forgotten in the list."""
    for table, keys in RESTART.items():
        assert table in Config.model_fields
        if keys != WHOLE:
            section = Config.model_fields[table].annotation
            # A section that may be missing is one of two types.
            known = next((each for each in get_args(section) if each is not type(None)), section)
            assert known is not None and keys <= set(known.model_fields), table  # type: ignore[attr-defined]


def test_what_waits_and_what_is_taken(made: Made) -> None:
    """Of one table some keys wait: the others are taken, and those that wait have their old values."""
    running = made.loaded.config
    limits = running.limits.model_copy(update={"idle_timeout": 5.0, "request_timeout": 7.0})
    host = running.host.model_copy(update={"contact": "somebody else"})
    read = running.model_copy(update={"limits": limits, "host": host})
    config, taken, waiting = merge_reloadable(read, running)
    assert (taken, waiting) == (["[limits]"], ["[host]", "[limits] idle_timeout"])
    assert (config.limits.request_timeout, config.limits.idle_timeout) == (7.0, running.limits.idle_timeout)
    assert config.host == running.host and merge_reloadable(running, running) == (running, [], [])


def test_modules_of_two_sets_know_nothing_of_each_other(tmp_path: Path) -> None:
    """Relative imports, packages, imports within a call: each sees its own; what is not the operator's is Python's."""
    package = tmp_path / "desk_modules"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "words.py").write_text("WORD = 'one'\n")
    (package / "main.py").write_text(
        "import json\nfrom . import words\nfrom desk_modules.words import WORD\n\n"
        "def say(context):\n    import desk_modules.words as late\n"
        "    return json.dumps([WORD, words.WORD, late.WORD])\n"
    )
    first = ModuleSet([tmp_path])
    one = first.resolve("desk_modules.main.say")
    (package / "words.py").write_text("WORD = 'two'\n")
    second = ModuleSet([tmp_path])
    two = second.resolve("desk_modules.main.say")
    assert (one(None), two(None)) == ('["one", "one", "one"]', '["two", "two", "two"]')  # type: ignore[arg-type]
    assert {path.name for path in second.files} == {"__init__.py", "words.py", "main.py"}
    assert second.resolve("json.dumps") is __import__("json").dumps
    with pytest.raises(UnresolvableFunction, match="nowhere"):
        second.resolve("desk_modules.nowhere.say")
