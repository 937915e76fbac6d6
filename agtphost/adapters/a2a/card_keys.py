"""Read the keys that may sign cards of an agent or a provider, as the configuration lists them."""

from __future__ import annotations

from pathlib import Path

from agtphost import extras
from agtphost.adapters.a2a.card import CardKey
from agtphost.config import Config, line_of
from agtphost.config.registry import Provider
from agtphost.config.web_upstreams import A2AAgentSection
from agtphost.errors import ConfigurationError, Problem
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.remembered_files import read_named
from agtphost.vocabulary.tomltext import Location


def card_key(text: str, folder: Path) -> CardKey:
    """
    Return the key that signs cards.

    :param text: base64url of an Ed25519 key, or ``file:PATH`` of a PEM or JWK file.
    :raises OSError, ValueError: the text gives no usable key, or the extra ``oauth`` is not installed.
    """
    if not extras.is_installed("joserfc"):
        raise ValueError(extras.missing("joserfc"))
    from joserfc.errors import JoseError
    from joserfc.jwk import ECKey, OKPKey, RSAKey, import_key

    kinds = (OKPKey, ECKey, RSAKey)
    try:
        if not text.startswith("file:"):
            return OKPKey.import_key({"kty": "OKP", "crv": "Ed25519", "x": text})
        octets = read_named(folder / text.removeprefix("file:"))
        if octets.lstrip().startswith(b"{"):
            key = import_key(jsontext.decode(octets))
            if isinstance(key, kinds):
                return key
            raise ValueError("the file holds a JWK that is not a public key of type EC, OKP or RSA")
        for kind in kinds:
            try:
                return kind.import_key(octets)
            except (JoseError, ValueError, TypeError):
                continue
    except (JoseError, TypeError) as error:
        raise ValueError("it lacks a member of a JWK, or has one of the wrong form") from error
    raise ValueError("the file is neither a JWK nor the PEM of a public key")


def card_keys(entry: A2AAgentSection | Provider, config: Config) -> dict[str, CardKey]:
    """
    Return the keys that may sign cards of an agent or a provider, by ``kid``.

    :raises ConfigurationError: a key cannot be used.
    """
    location: Location
    if isinstance(entry, A2AAgentSection):
        place = f'[[a2a.agent]] "{entry.name}"'
        location = ("a2a", "agent", [each.name for each in config.a2a.agent].index(entry.name))
    else:
        place = f'[[registry.provider]] "{entry.origin}"'
        providers = config.registry.provider if config.registry is not None else ()
        location = ("registry", "provider", [each.origin for each in providers].index(entry.origin))
    keys: dict[str, CardKey] = {}
    for kid, text in entry.card_keys.items():
        try:
            keys[kid] = card_key(text, config.folder)
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                [
                    Problem(
                        message=f"{place} card_keys: {kid[:64]!r} cannot be used: {explain(error)}",
                        file=str(config.file),
                        line=line_of(config.file, (*location, "card_keys", kid)),
                        hint="write base64url of an Ed25519 public key, or file:PATH of a PEM or JWK file",
                    )
                ]
            ) from error
    return keys
