"""``[registry]`` over a reload: what takes effect at once, and what waits."""

from __future__ import annotations

import json
from pathlib import Path

from agtphost.audit.drafts import HOST_CHAIN, Change, Draft
from agtphost.config import load
from agtphost.config.reloadable_keys import merge_reloadable
from agtphost.host.host_loader import load_host
from agtphost.registry.feature import Registry
from agtphost.testing.loaded_parts import config_of
from agtphost.vocabulary.quotas import CARD
from agtphost.vocabulary.steps import run_to_end
from tests.host.test_generations import Made
from tests.registry.hosts import card
from tests.system.hosting import sample


def test_what_waits_for_a_restart() -> None:
    """Only where HTTP listens; a section that comes or goes is taken for the rest."""
    without, plain = config_of({}, {}), config_of({"registry": {"refetch_seconds": 600}}, {})
    listening = config_of({"registry": {"listen": "tcp:8089:interface=127.0.0.1", "forget_days": 7}}, {})
    taken, tables, waiting = merge_reloadable(plain, without)
    assert taken.registry == plain.registry and "[registry]" in tables and waiting == []
    taken, tables, waiting = merge_reloadable(listening, without)
    assert taken.registry is not None and taken.registry.listen is None and taken.registry.forget_days == 7
    assert waiting == ["[registry] listen"]
    taken, tables, waiting = merge_reloadable(without, plain)
    assert taken.registry is None and tables == ["[registry]"] and waiting == []
    taken, tables, waiting = merge_reloadable(without, listening)
    assert taken.registry == listening.registry and tables == [] and waiting == ["[registry] listen"]
    assert merge_reloadable(plain, plain)[1:] == ([], [])


class RegistryGenerations(Made):
    """A host with ``[registry]``, whose configurations replace each other."""

    def __init__(self, config: Path) -> None:
        self._config, self._plain = config, config.read_text()
        config.write_text(self._plain + "\n[registry]\nforget_days = 2\n")
        super().__init__(config)
        self.generations.features.service.startService()  # type: ignore[no-untyped-call]

    def reload(self, section: str) -> None:
        """Replace the configuration by one with this section."""
        self._config.write_text(self._plain + section)
        self.loaded = load_host(load(self._config, {}), {})
        self.another()

    def put(self, card_id: str) -> None:
        """Commit a card with a lease of a minute."""
        text = json.dumps(card(id=card_id, inputs=None, outputs=None))
        value = {"card": text, "number": 1, "updated": 0.0, "source": "inline", "owner": "", "lifetime": 60.0}
        change = Change(kind=CARD, key=card_id, value=value, owner="")
        self.evidence.ledger.submit(Draft(chain=HOST_CHAIN, payload={}, changes=(change,)))
        self.reactor.settle()

    @property
    def registry(self) -> Registry:
        """Return what the feature carries."""
        made = self.generations.core.features.contributions["registry",].carried
        assert isinstance(made, Registry)
        return made


def test_cards_and_leases_continue_over_a_reload(tmp_path: Path) -> None:
    """A reload applies other settings; the section gone, nothing watches cards; added again, it knows all of them."""
    host = RegistryGenerations(sample(tmp_path))
    host.put("one")
    host.reactor.advance(70)
    first, watched = host.registry, host.watchers()
    assert first.leases.state("one") == "late" and first.card_watch.maintenance.terms.forget_days == 2
    host.generations.discard(run_to_end(host.generations.compose(host.loaded)))
    host.reload("\n[registry]\nforget_days = 5\n")
    assert host.registry is first and host.watchers() == watched
    assert first.leases.state("one") == "late" and first.card_watch.maintenance.terms.forget_days == 5
    host.put("two")
    assert first.registered.ids() == ["one", "two"] and first.registered.changes == 2
    host.reload("")
    assert host.watchers() < watched and not (first.lease_watch.running or first.card_watch.running)
    host.reactor.advance(200)
    assert first.leases.state("two") == "live", "its states change no more"
    host.reload("\n[registry]\n")
    assert host.registry is not first and host.registry.registered.ids() == ["one", "two"]
    host.reactor.advance(70)
    assert host.registry.leases.state("two") == "late"


def test_cards_are_not_forgotten_by_a_section_that_is_gone(tmp_path: Path) -> None:
    """A call keeps the configuration before with its services; only the one in force maintains cards."""
    host = RegistryGenerations(sample(tmp_path))
    host.reload("\n[registry]\nforget_days = 1e-9\n")
    host.put("one")
    first = host.registry
    host.generations.core.admission.dispatcher.under_way.hold()
    host.reload("")
    assert first.card_watch.running, "the call goes on"
    for _ in range(60):
        host.reactor.advance(10)
        host.reactor.settle()
    assert first.registered.ids() == ["one"] and first.leases.state("one") == "lost"
    host.reload("\n[registry]\nforget_days = 1e-9\n")
    for _ in range(60):
        host.reactor.advance(10)
        host.reactor.settle()
    assert host.registry.registered.ids() == [], "the control: a section in force forgets it"
