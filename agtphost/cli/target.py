"""Find the host, the caller and the trust anchors from options, completed by :mod:`agtphost.client.target`."""

from __future__ import annotations

from dataclasses import replace

from agtphost.cli.failures import WrongInput, configuration_error
from agtphost.cli.host_config import NO_HOST, find_config, read_config, recall_faulty, recall_left_out, warn_of_faults
from agtphost.cli.options import HERE, Connection
from agtphost.client.errors import InvalidCall
from agtphost.client.local_host import LocalHost, recall, remember
from agtphost.client.local_identities import CALLER
from agtphost.client.target import (
    Credentials,
    Target,
    address_of,
    is_of,
    of_local,
    of_profile,
    of_reading,
    signing_keys,
)
from agtphost.errors import ConfigurationError
from agtphost.vocabulary.identifiers import is_agent_id

__all__ = ["Target", "address_of", "resolve", "signing_keys"]


def resolve(where: Connection, uri: str | None = None, *, identity: str = CALLER) -> Target:
    """
    Return the host to connect to, and the credentials to use.

    :param uri: as given; None for ``--uri``, if the command has it; ``-`` for the configured host.
    :param identity: agent to call as, if the command line names none.
    :raises agtphost.cli.failures.CommandError: something necessary is missing; the message names it.
    """
    uri = uri or where.host_uri
    if uri == HERE:
        uri = None
    found = _find_target(where, _credentials_of(where), uri, identity)
    return replace(found, timeout=where.timeout, plain_parameters=where.plain_parameters).choose_carrier(where.quic)


def _find_target(where: Connection, credentials: Credentials, uri: str | None, identity: str) -> Target:
    if where.profile is not None:
        return _of_profile(where, where.profile, credentials, uri)
    path = where.config if uri is not None else find_config(where)
    if path is None and uri is not None and where.cacert is None:
        path = find_config(where)
        if path is not None and not is_of(uri, path):
            path = None
    if path is not None:
        try:
            host = recall(path)
            if host is not None:
                return of_local(host, credentials, identity=where.identity, default=identity, uri=uri)
            found = read_config(path, warn=False)
            if not found.problems:
                remember(path, LocalHost.of(found.config))
            if (last := recall_left_out(path, found)) is not None:
                return of_local(last, credentials, identity=where.identity, default=identity, uri=uri)
            try:
                target = of_reading(found, credentials, identity=where.identity, default=identity, uri=uri)
                warn_of_faults(path, found)
                return target
            except InvalidCall:
                last = recall_faulty(path, found)
                if last is None:
                    raise
                return of_local(last, credentials, identity=where.identity, default=identity, uri=uri)
        except InvalidCall as error:
            raise WrongInput(error.explanation, error.remedy) from None
    if uri is None:
        raise WrongInput("no host is named", NO_HOST)
    if where.identity is not None:
        raise WrongInput("--as needs the host's state directory", "Add --config host.toml, or use --cert.")
    cert, key = credentials.pair
    return Target(uri=uri, cacert=credentials.authority, cert=cert, key=key, agent_id=credentials.agent_id)


def _credentials_of(where: Connection) -> Credentials:
    """Return the credentials that the command line names."""
    if where.no_cert and (where.cert is not None or where.key is not None):
        raise WrongInput("--no-cert excludes --cert and --key", "Leave out --no-cert, or the other two.")
    if where.cert is None and where.key is not None:
        raise WrongInput("--key needs --cert", "Name the certificate of this key: --cert FILE.")
    if where.agent_id is not None and not is_agent_id(where.agent_id):
        raise WrongInput(
            f"--agent-id {where.agent_id[:80]!r} is not 64 lower-case hexadecimal digits",
            "`agtp agent ls` lists the Agent-IDs of a host's agents.",
        )
    return Credentials(
        cert=where.cert, key=where.key, cacert=where.cacert, agent_id=where.agent_id, anonymous=where.no_cert
    )


def _of_profile(where: Connection, name: str, credentials: Credentials, uri: str | None) -> Target:
    from agtphost.config import load_profile

    if where.config is not None:
        raise WrongInput("--config and --profile exclude each other", "Give one of them.")
    if where.identity is not None:
        raise WrongInput("--as needs the host's state directory", "A profile has its own cert and key.")
    try:
        profile = load_profile(name)
    except ConfigurationError as error:
        raise configuration_error(error) from None
    return of_profile(profile, name, credentials, uri)
