"""The agents that this host answers for, and those it admits as callers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from twisted.logger import Logger

from agtphost.config import Config
from agtphost.errors import Problem
from agtphost.identity.agent_files import agent_of_item, descriptions_in, load_agents
from agtphost.identity.agents import Agent
from agtphost.identity.keys import KeyFormatError, VerifyingKey
from agtphost.identity.provisioning import HOSTED
from agtphost.identity.trust import TrustedIssuers, trusted_issuers
from agtphost.vocabulary.foreign_errors import explain, original_of

log = Logger()


def find_descriptions(config: Config) -> list[Path]:
    """Return the description files from which the development profile issues hosted agents."""
    folder = config.identity.agents
    return descriptions_in(folder) if folder is not None and folder.is_dir() else []


def load(config: Config, problems: list[Problem]) -> list[Agent]:
    """
    Return every agent, hosted ones first.

    :param problems: collects problems; an agent with a problem is not admitted.
    """
    issuers = _read_trusted(config, problems)
    agents: list[Agent] = []
    for folder, hosted in _folders(config):
        found, wrong = load_agents(
            folder, hosted=hosted, production=not config.host.development, trusted_issuers=issuers
        )
        agents.extend(found)
        problems.extend(wrong)
    return agents


def restore(config: Config, value: Mapping[str, Any]) -> Agent | None:
    """
    Return the agent of a state item, by the issuers that are trusted now; None, and a line in the log, where it is not
    admitted.
    """
    problems: list[Problem] = []
    issuers = _read_trusted(config, problems)
    agent, wrong = agent_of_item(value, production=not config.host.development, trusted_issuers=issuers)
    for problem in (*problems, *wrong):
        log.error("the agent {label} of the store is not admitted: {why}", label=value["label"], why=str(problem))
    return agent


def _folders(config: Config) -> list[tuple[Path, bool]]:
    folders = []
    if config.identity.agents is not None:
        folders.append((config.identity.agents, True))
    issued = config.host.state_dir / HOSTED
    if config.host.development and issued.is_dir():
        folders.append((issued, True))
    folders.append((config.identity.known_agents, False))
    return folders


def trusted_issuers_of(config: Config, awaited: Iterable[VerifyingKey] = ()) -> TrustedIssuers:
    """
    Return the issuers whose Genesis documents are trusted.

    :param awaited: keys that identity providers publish at present.
    :raises agtphost.identity.keys.KeyFormatError: a configured key is malformed.
    :raises OSError: a file cannot be read.
    """
    identity = config.identity
    found = trusted_issuers(
        identity.trusted_issuers,
        identity.registrars,
        config.folder,
        anchored=[anchor.value for anchor in identity.anchor if anchor.type == "key" and anchor.value],
        awaited=any(anchor.type == "oidc" for anchor in identity.anchor),
    )
    return replace(found, everywhere=frozenset(found.everywhere) | frozenset(awaited))


def _read_trusted(config: Config, problems: list[Problem]) -> TrustedIssuers:
    try:
        return trusted_issuers_of(config)
    except (KeyFormatError, OSError) as error:
        problems.append(
            Problem(
                message=f"[identity] trusted issuers: {explain(error)}",
                original=original_of(error),
                file=str(config.file),
            )
        )
        return TrustedIssuers()
