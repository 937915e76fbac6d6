"""The agents that this host answers for, and those it admits as callers."""

from __future__ import annotations

from pathlib import Path

from agtphost.config import Config
from agtphost.errors import Problem
from agtphost.identity.agents import Agent, load_agents
from agtphost.identity.keys import KeyFormatError, VerifyingKey
from agtphost.identity.provisioning import descriptions_in
from agtphost.identity.trust import issuer_keys

HOSTED = "hosted"
"""Folder of the state directory that holds the development profile's issued agents."""


def descriptions(config: Config) -> list[Path]:
    """What the development profile issues hosted agents from."""
    folder = config.identity.agents
    return descriptions_in(folder) if folder is not None and folder.is_dir() else []


def load(config: Config, problems: list[Problem]) -> list[Agent]:
    """
    Every agent, hosted ones first.

    :param problems: takes what is wrong; an agent with a problem is not admitted.
    """
    trusted = _trusted(config, problems)
    agents: list[Agent] = []
    for folder, hosted in _folders(config):
        found, wrong = load_agents(
            folder, hosted=hosted, production=not config.host.development, trusted_issuers=trusted
        )
        agents.extend(found)
        problems.extend(wrong)
    return agents


def _folders(config: Config) -> list[tuple[Path, bool]]:
    folders = []
    if config.identity.agents is not None:
        folders.append((config.identity.agents, True))
    issued = config.host.state_dir / HOSTED
    if config.host.development and issued.is_dir():
        folders.append((issued, True))
    folders.append((config.identity.known_agents, False))
    return folders


def _trusted(config: Config, problems: list[Problem]) -> frozenset[VerifyingKey]:
    try:
        return issuer_keys(config.identity.trusted_issuers, config.file.parent)
    except (KeyFormatError, OSError) as error:
        problems.append(Problem(message=f"[identity] trusted_issuers: {error}", file=str(config.file)))
        return frozenset()
