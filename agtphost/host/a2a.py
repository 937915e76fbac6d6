"""Build the services of ``[[a2a.agent]]`` entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from agtphost import extras
from agtphost.adapters.a2a import A2AAgent, CardKey
from agtphost.adapters.a2a.agent import pins_of
from agtphost.config import Config, line_of
from agtphost.config.registry import Provider
from agtphost.config.web_upstreams import A2AAgentSection, ACPServerSection
from agtphost.contract.binding import Binding
from agtphost.errors import ConfigurationError, Problem
from agtphost.host.server_pool import ServiceSupply, make_new
from agtphost.upstream.pins import Pins, PinStore
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.remembered_files import read_named
from agtphost.vocabulary.tomltext import Location

W = TypeVar("W", A2AAgentSection, ACPServerSection)


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


def apply_approval_rule(entry: W, irreversible: bool) -> W:
    """Require a person's approval of calls to an upstream where ``irreversible`` calls need one."""
    return entry.model_copy(update={"approval": "required"}) if irreversible else entry


def a2a_agents(reactor: Any, config: Config, store: PinStore, supply: ServiceSupply = make_new) -> list[A2AAgent]:
    """
    Return a service for each ``[[a2a.agent]]`` entry.

    :param store: keeps approvals of changed definitions.
    :param supply: returns a running service again where its entry is unchanged.
    :raises ConfigurationError: a key of a card cannot be used.
    """
    agents = []
    for entry in (apply_approval_rule(entry, config.approvals.irreversible) for entry in config.a2a.agent):
        keys = card_keys(entry, config)

        def make(entry: A2AAgentSection = entry, keys: Mapping[str, CardKey] = keys) -> A2AAgent:
            return A2AAgent(reactor, entry, keys=keys, pins=Pins("a2a", entry.name, pins_of(entry), store))

        made_of = entry, {kid: key.thumbprint() for kid, key in keys.items()}
        agents.append(supply("a2a", entry.name, made_of, make))
    return agents


def bind_execute_at(built_ins: Iterable[Binding], *paths: str, operators: bool = True) -> tuple[Binding, ...]:
    """
    Return bindings of EXECUTE to further paths, each of which names one upstream.

    :param operators: whether operators without an agent may call them, as they may EXECUTE.
    """
    floor = next(binding for binding in built_ins if (binding.method, binding.path) == ("EXECUTE", "/"))
    return tuple(replace(floor, path=path, operators=floor.operators and operators) for path in paths)


def relay_bindings(built_ins: Iterable[Binding], config: Config) -> tuple[Binding, ...]:
    """
    Return the binding by which the A2A front forwards operations to agents behind the host, if it forwards any.

    Clients of every front may call it. What an action requires is checked after this, so the operator has to set
    ``min_assurance`` of the agent to ``gateway``, or to ``header`` for a front that asks for no credentials.
    """
    if all(entry.upstream is None for entry in config.a2a.front.agent):
        return ()
    return bind_execute_at(built_ins, "/a2a-relay/{server}", operators=False)
