"""``~/.config/agtphost/config.toml``: where the ``agtp`` command finds hosts that are not on this machine."""

from __future__ import annotations

import copy
import difflib
import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from agtphost.config.faults import admit
from agtphost.config.loader import context_of, read
from agtphost.config.values import FilePath, Fingerprint, Section, Table, Token
from agtphost.errors import ConfigurationError, Problem


class Profile(Section):
    """An entry of ``[profile.NAME]``: a host, and the identity to use there."""

    uri: Token = ""
    """The host: ``agtp://example.com`` or ``agtp://example.com:4480``."""

    cacert: FilePath | None = None
    """The authority of the host's certificate; None: those of this machine."""

    cert: FilePath | None = None
    """Client certificate."""

    key: FilePath | None = None
    """Its private key."""

    agent_id: Fingerprint | None = None
    """What to send as Agent-ID; None: the certificate's."""


class Profiles(Section):
    """The whole file."""

    profile: Table[str, Profile] = Field(default_factory=dict)


def profile_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the file: below ``XDG_CONFIG_HOME``, or ``~/.config``."""
    configured = environ.get("XDG_CONFIG_HOME")
    base = Path(configured) if configured else Path(environ.get("HOME", "~")).expanduser() / ".config"
    return base / "agtphost" / "config.toml"


def load_profile(name: str, environ: Mapping[str, str] = os.environ) -> Profile:
    """
    Load one profile.

    :raises ConfigurationError: the file is wrong, or has no such profile.
    """
    document = read(profile_file(environ))
    profiles, faults, _ = admit(Profiles, copy.deepcopy(document.tree), context_of(document, environ))
    if faults:
        raise ConfigurationError(document.problems(faults, Profiles))
    found = profiles.profile.get(name)
    if found is None:
        close = difflib.get_close_matches(name, profiles.profile, 1)
        hint = f"did you mean {close[0]}?" if close else f"add [profile.{name}]"
        raise ConfigurationError(
            [Problem(message=f"the profile {name!r} does not exist", file=str(document.file), hint=hint)]
        )
    return found
