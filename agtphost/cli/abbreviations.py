"""Resolve identifiers given by their first digits."""

from __future__ import annotations

from agtphost.cli.failures import WrongInput
from agtphost.cli.host_config import find_config, load_usable_config
from agtphost.cli.options import Connection
from agtphost.vocabulary.identifiers import is_audit_id

FEWEST = 4
"""Fewest digits that may abbreviate an Audit-ID."""


def audit_id_of(where: Connection, text: str, otherwise: str = "") -> str:
    """
    Return the Audit-ID that begins with ``text``, looked up in the store of the configured host, running or stopped.

    :param otherwise: what else the argument could have been, for the error message.
    :raises WrongInput: no Audit-ID begins so, or several do.
    """
    if is_audit_id(text):
        return text
    wrong = f"{text[:80]!r} is not an Audit-ID of 64 lower-case hexadecimal digits"
    if len(text) > 64 or any(digit not in "0123456789abcdef" for digit in text):
        raise WrongInput(wrong, otherwise)
    path = find_config(where) if where.host_uri == Connection.host_uri else None
    if path is None:
        raise WrongInput(wrong, "An abbreviated Audit-ID works only for the configured host: add --config host.toml.")
    if len(text) < FEWEST:
        raise WrongInput(f"{text!r} is too short for the beginning of an Audit-ID", f"Give {FEWEST} digits or more.")
    from agtphost.stores.rows import StoreError
    from agtphost.stores.settings import locate_store

    try:
        found = locate_store(load_usable_config(path, ("store",), ("host", "state_dir")).store).find_records(text, 3)
    except StoreError as error:
        raise WrongInput(str(error), "Give the whole Audit-ID: 64 lower-case hexadecimal digits.") from None
    if not found:
        raise WrongInput(f"no recent record has an Audit-ID that begins with {text}", "`agtp audit walk` lists some.")
    if len(found) > 1:
        some = ", ".join(each.audit_id[: len(text) + 6] for each in found)
        raise WrongInput(f"several Audit-IDs begin with {text}", f"Give more digits, such as {some}.")
    return found[0].audit_id
