"""Who the operators of a host are, from its configuration."""

from __future__ import annotations

from collections.abc import Iterator

from twisted.logger import Logger

from agtphost.config import Config
from agtphost.handlers.operators import Operator, OperatorRole, Operators, spki_digest
from agtphost.host.host_loader import LoadedHost
from agtphost.identity.keys import KeyFormatError
from agtphost.vocabulary.foreign_errors import explain

log = Logger()


def operators_of(loaded: LoadedHost) -> Operators:
    """Return the operators that a configuration lists, and those that count while it lists no administrator."""
    config = loaded.config
    return Operators(_read_entries(config), _registrars(loaded) if config.host.development else ())


def _read_entries(config: Config) -> Iterator[Operator]:
    for each in config.operator:
        role = OperatorRole[each.role.upper()]
        try:
            key = each.load()
        except (KeyFormatError, OSError) as error:
            # A reload was refused for it before; a host in memory has no files. `agtp check` reports it as a problem.
            log.warn("[[operator]] {name} has no key: {why}", name=each.name, why=explain(error), is_problem=True)
            # The entry counts, with a key that no certificate has: else registrars would be administrators.
            yield Operator(name=each.name, key=str(each.key), role=role, listed=True)
            continue
        if key is None:
            yield Operator(name=each.name, key=str(each.key), role=role, listed=True)
        else:
            spki = spki_digest(key.raw)
            yield Operator(name=each.name, key=key.fingerprint, role=role, spki=spki, listed=True)
    people = {key: name for name, key in config.notify.people.items()}
    for keys, role in (
        (config.audit.operators, OperatorRole.ADMINISTRATOR),
        (config.admin.viewers, OperatorRole.VIEWER),
    ):
        for fingerprint in keys:
            name = people.get(fingerprint, f"{role.label}-{fingerprint[:8]}")
            yield Operator(name=name, key=fingerprint, role=role)


def _registrars(loaded: LoadedHost) -> tuple[str, ...]:
    """
    Return the keys that agents known here were issued with.

    A development host lists no administrator until someone adds one. Until then the holder of such a key is one.
    """
    issuers = (agent.issuer_fingerprint for agent in loaded.directory.list_known())
    return tuple(each for each in dict.fromkeys(issuers) if each)
