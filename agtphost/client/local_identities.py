"""Certificates and keys that lie with a host on this machine, by name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agtphost.client.errors import InvalidCall
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.display_names import split_told_apart
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.regular_files import read_octets

if TYPE_CHECKING:
    from agtphost.client.local_host import LocalHost

CALLER = "demo"
"""The agent that the development profile creates."""

REGISTRAR = "registrar"
"""The Genesis issuer's name among identities: it has a certificate and is not an agent."""


def identities(host: LocalHost) -> dict[str, Path]:
    """Return the certificates that lie in the state directory, by name."""
    found = {}
    registrar = host.state_dir / "registrar.pem"
    if registrar.is_file():
        found[REGISTRAR] = registrar
    directory = host.known_agents
    if directory.is_dir():
        for entry in sorted(directory.iterdir()):
            if (entry / "agent.pem").is_file():
                found[entry.name] = entry / "agent.pem"
    return found


def identity_of(host: LocalHost, wanted: str | None, default: str) -> tuple[Path | None, Path | None, str | None]:
    """
    Return certificate, key and Agent-ID of a named identity; nothing where only the default is absent.

    :param wanted: the name of a directory, or the label or Agent-ID of an agent, or what lists show of a shared label.
    :raises InvalidCall: for an unknown name, with the known ones, and for a name that two agents have.
    """
    known = identities(host)
    certificate = known.get(default) if wanted is None else _find_certificate(known, wanted)
    if certificate is None:
        if wanted is None:
            return None, None, None
        remedy = "Start the host once, which makes its own, or name the file of a certificate."
        if known:
            close = difflib.get_close_matches(wanted, known, 1)
            remedy = f"{f'Did you mean {close[0]}? ' if close else ''}Known here: {', '.join(known)}."
        raise InvalidCall(f"The identity {wanted!r} does not exist in {host.state_dir}.", remedy)
    cert, key = pair(certificate, None)
    return cert, key, certified_agent(certificate)


def _find_certificate(known: Mapping[str, Path], wanted: str) -> Path | None:
    """
    Return the certificate of an agent that is given by directory, label or Agent-ID; None if there is none.

    :raises InvalidCall: several agents have the name.
    """
    called, digits = split_told_apart(wanted)
    found: dict[str, tuple[str, Path]] = {}
    for name, certificate in known.items():
        agent_id, label = _read_names(certificate.with_name("document.json"))
        if called in (name, agent_id, label) and agent_id.startswith(digits):
            found.setdefault(agent_id or name, (name, certificate))
    if len(found) > 1:
        choices = ", ".join(f"{agent_id} ({name})" for agent_id, (name, _) in found.items())
        raise InvalidCall(
            f"{len(found)} agents have the name {wanted!r}.", f"Give the Agent-ID of one of them: {choices}."
        )
    return next((certificate for _, certificate in found.values()), None)


def _read_names(document: Path) -> tuple[str, str]:
    """Return the Agent-ID and the label in an Identity Document; empty where there is none that can be read."""
    try:
        read = jsontext.decode(read_octets(document))
    except (OSError, jsontext.JSONTextError):
        return "", ""
    members = read if isinstance(read, dict) else {}
    agent_id, label = members.get("agent_id"), members.get("name")
    return agent_id if isinstance(agent_id, str) else "", label if isinstance(label, str) else ""


def certified_agent(certificate: Path) -> str | None:
    """
    Return the Agent-ID that a certificate file names; None where it names none.

    :raises InvalidCall: if it cannot be read.
    """
    from cryptography.hazmat.primitives.serialization import Encoding

    from agtphost.identity.certificates import CertificateError, load_certificate, parse_peer_certificate

    try:
        return parse_peer_certificate(load_certificate(certificate).public_bytes(Encoding.DER)).agent_id
    except (CertificateError, OSError) as error:
        raise InvalidCall(f"The certificate {certificate} cannot be read: {explain(error)}.") from error


def pair(certificate: Path, key: Path | None) -> tuple[Path, Path]:
    """
    Return a certificate and its key, which is next to it unless it is named.

    :raises InvalidCall: naming the one that is missing.
    """
    return (
        present(certificate, "The client certificate"),
        present(
            key or certificate.with_suffix(".key"),
            "The key of the client certificate",
            "Name its file, or put it next to the certificate.",
        ),
    )


def present(path: Path, what: str, remedy: str = "") -> Path:
    """``path``, if there is such a file. :raises InvalidCall: otherwise."""
    if path.is_dir():
        raise InvalidCall(f"{what} is a directory: {path}.", remedy or "Name a file in PEM.")
    if not path.is_file():
        close = difflib.get_close_matches(path.name, _names_next_to(path), 1, 0.75)
        meant = f"Did you mean {path.with_name(close[0])}? " if close else ""
        raise InvalidCall(f"{what} does not exist: {path}.", f"{meant}{remedy}".rstrip())
    return path


def _names_next_to(path: Path) -> list[str]:
    """Return the names in the same directory."""
    try:
        return [each.name for each in path.parent.iterdir()]
    except OSError:
        return []
