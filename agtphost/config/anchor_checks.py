"""Check rules that span several keys of ``[[identity.anchor]]`` and ``[identity] registrars``."""

from __future__ import annotations

from collections.abc import Iterator

from agtphost.config.faults import ConfigFault
from agtphost.config.sections import Config
from agtphost.identity.keys import KeyFormatError
from agtphost.identity.trust import issuer_keys
from agtphost.vocabulary.foreign_errors import split
from agtphost.vocabulary.tomltext import Location


def anchor_faults(config: Config) -> Iterator[ConfigFault]:
    """Yield the faults of anchors and registrars beyond their single keys."""
    for zone, keys in config.identity.registrars.items():
        for number, entry in enumerate(keys):
            yield from _anchor_key(("identity", "registrars", zone, number), entry, config)
    for number, anchor in enumerate(config.identity.anchor):
        location: Location = ("identity", "anchor", number)
        needed = ("value",) if anchor.type == "key" else ("discovery_url", "trusted_issuer")
        for name in ("value", "discovery_url", "trusted_issuer", "ca"):
            given = getattr(anchor, name) is not None
            if name in needed and not given:
                yield ConfigFault(location=(*location, name), message="is missing")
            elif given and name not in needed and not (name == "ca" and anchor.type == "oidc"):
                yield ConfigFault(
                    location=(*location, name), message=f"does not belong to an anchor of type {anchor.type}"
                )
        if anchor.type == "key" and anchor.value is not None:
            yield from _anchor_key((*location, "value"), anchor.value, config)
        if anchor.ca is not None and not anchor.ca.is_file():
            yield ConfigFault(location=(*location, "ca"), message=f"names a file that does not exist: {anchor.ca}")


def _anchor_key(location: Location, entry: str, config: Config) -> Iterator[ConfigFault]:
    try:
        issuer_keys([entry], config.folder)
    except KeyFormatError as error:
        hint = "write the key in base64url, or file:PATH of a PEM file"
        yield ConfigFault(location=location, message=f"is not an Ed25519 public key: {error}", hint=hint)
    except OSError as error:
        yield ConfigFault(location=location, message=f"names a file that cannot be read: {split(error)[0]}")
