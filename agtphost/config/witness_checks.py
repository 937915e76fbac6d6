"""What witnesses and witnessed logs need besides sound keys."""

from __future__ import annotations

from collections.abc import Iterator

from agtphost.config.faults import ConfigFault, describe_absence
from agtphost.config.sections import Config
from agtphost.identity.keys import KeyFormatError
from agtphost.identity.trust import issuer_keys
from agtphost.vocabulary.foreign_errors import split
from agtphost.vocabulary.tomltext import Location


def witnessing_faults(config: Config) -> Iterator[ConfigFault]:
    """Yield every fault of ``[audit] witnesses``, ``[[audit.witness_host]]`` and ``[witness]``."""
    yield from _witnesses(config)
    yield from _hosts(config)
    yield from _logs(config)


def _witnesses(config: Config) -> Iterator[ConfigFault]:
    audit = config.audit
    if audit.witnesses and not audit.signing:
        yield ConfigFault(
            location=("audit", "witnesses"),
            message="need signed checkpoints",
            hint="write signing = true",
            concerns=(("audit", "signing"),),
        )
    if len(set(audit.witnesses)) != len(audit.witnesses):
        yield ConfigFault(location=("audit", "witnesses"), message="name one witness twice")
    if audit.witness_required and not audit.witnesses:
        yield ConfigFault(
            location=("audit", "witness_required"),
            message="requires an answer, but no witness is configured",
            hint="name hosts in witnesses",
            concerns=(("audit", "witnesses"),),
        )
    if config.witness.logs and not audit.signing:
        yield ConfigFault(
            location=("witness", "logs"),
            message="need a signing key to cosign with",
            hint="write [audit] signing = true",
            concerns=(("audit", "signing"),),
        )


def _hosts(config: Config) -> Iterator[ConfigFault]:
    seen: set[str] = set()
    for number, entry in enumerate(config.audit.witness_host):
        location: Location = ("audit", "witness_host", number)
        if not entry.uri:
            yield ConfigFault(location=(*location, "uri"), message="is missing", hint="the same text as in witnesses")
        elif entry.uri not in config.audit.witnesses:
            yield ConfigFault(
                location=(*location, "uri"),
                message="is not one of witnesses",
                concerns=(("audit", "witnesses"),),
            )
        elif entry.uri in seen:
            yield ConfigFault(location=(*location, "uri"), message="is listed twice")
        seen.add(entry.uri)
        if (entry.cert is None) != (entry.key is None):
            yield ConfigFault(location=location, message="needs cert and key together", concerns=((*location, "cert"),))
        for name in ("cert", "key", "ca"):
            path = getattr(entry, name)
            if path is not None and not path.is_file():
                yield ConfigFault(location=(*location, name), message=describe_absence(path))
        if entry.signing_key is not None:
            yield from _key(config, (*location, "signing_key"), entry.signing_key)


def _logs(config: Config) -> Iterator[ConfigFault]:
    for number, entry in enumerate(config.witness.logs):
        location: Location = ("witness", "logs", number)
        if not entry.origin:
            yield ConfigFault(location=(*location, "origin"), message="is missing", hint="the server_id of that host")
        if not entry.key:
            yield ConfigFault(location=(*location, "key"), message="is missing", hint="that host's public signing key")
        else:
            yield from _key(config, (*location, "key"), entry.key)


def _key(config: Config, location: Location, text: str) -> Iterator[ConfigFault]:
    try:
        issuer_keys((text,), config.folder)
    except (KeyFormatError, OSError) as error:
        yield ConfigFault(location=location, message=f"cannot be used: {split(error)[0]}")
