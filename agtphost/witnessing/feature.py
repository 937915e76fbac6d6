"""The feature of ``[witness]`` and of ``[audit] witnesses``: both sides of witnessing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from zope.interface import implementer

from agtphost.audit.state import StateTable
from agtphost.config import Config
from agtphost.config.faults import ConfigFault
from agtphost.config.witness_settings import WitnessSection
from agtphost.contract.binding import Binding
from agtphost.contract.reserved import WITNESSING
from agtphost.features import Contribution, IFeature, Services
from agtphost.identity.keys import SigningKey
from agtphost.identity.peer import Assurance
from agtphost.methods.checkpoint_methods import WitnessedLog, Witnessing
from agtphost.witnessing.witnesses import Witnesses, read_keys, witness_settings


@implementer(IFeature)
class WitnessFeature:
    """The feature of the witnesses of this host's log, and of the logs that this host witnesses."""

    settings_schema = None

    def check(self, settings: WitnessSection, config: Config) -> Iterable[ConfigFault]:
        """Return no faults: reading the configuration checks the sections and the keys that they name."""
        return ()

    def build(self, settings: WitnessSection, services: Services, previous: Witnesses | None) -> Contribution:
        """
        Return the methods of a witness, and the witnesses of this host, which go on over a reload.

        :raises agtphost.stores.StoreError: a key cannot be read.
        """
        config, key = services.config, services.key
        made = previous
        if made is None or made.settings != witness_settings(config):
            made = Witnesses(services.reactor, config, key, services.records, services.ledger.cosign)
        return Contribution(
            bindings=witness_bindings(config, services.state, key, services.clock),
            services=[made],
            witnesses=made.witnesses,
            carried=made,
        )


def witness_bindings(
    config: Config, held: StateTable, key: SigningKey | None, now: Callable[[], float]
) -> tuple[Binding, ...]:
    """
    Return the bindings of this host as a witness; empty if it is not one.

    :raises agtphost.stores.StoreError: the key of a log cannot be read.
    """
    if not config.witness.logs or key is None:
        return ()
    logs: dict[str, WitnessedLog] = {}
    for entry in config.witness.logs:
        before = logs.get(entry.origin, WitnessedLog(origin=entry.origin, keys=()))
        logs[entry.origin] = WitnessedLog(
            origin=entry.origin,
            keys=(*before.keys, *read_keys(config, entry.key, "[[witness.logs]] key")),
            clients=before.clients | ({entry.client} if entry.client is not None else frozenset()),
        )
    handler = Witnessing(held, logs.values(), config.host.server_id, key, now)
    bind = partial(Binding, handler=handler, tier="A", min_assurance=Assurance.NONE, idempotent=True)
    # A log is not an agent: its signature identifies it, and the handler verifies that.
    return tuple(
        bind(method=method, path=path, description=_STATEMENTS[method], state_changing=method == "CONFIRM")
        for method, path in WITNESSING
    )


_STATEMENTS = {
    "CONFIRM": "Have a checkpoint of a witnessed log verified, kept and cosigned.",
    "QUERY": "The last checkpoint that was seen of a witnessed log, and what contradicts it.",
}
