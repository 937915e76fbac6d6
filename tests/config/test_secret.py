"""Secrets are read once and never show themselves."""

from __future__ import annotations

import copy
import pickle
import traceback
from pathlib import Path

import pytest

from agtphost.config.secret import MAX_SECRET, Secret, is_reference, resolve

CANARY = "can-" + "4480"
"""Written so that the lines of code in a traceback do not contain it."""


def test_a_secret_shows_nothing() -> None:
    """However it is printed, it is three stars (T-SE-1)."""
    secret = Secret("canary")
    shown = [
        str(secret),
        repr(secret),
        f"{secret}",
        f"{secret!r}",
        f"{secret:>20}",
        str([secret]),
    ]
    assert not any("canary" in text for text in shown)
    assert secret.reveal() == "canary"


def test_a_secret_is_not_copied_out_of_the_process() -> None:
    """Pickles and copies would carry the value along."""
    for escape in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            escape(Secret("canary"))


def test_secrets_compare_by_value() -> None:
    """Equal values are equal, and a secret equals no plain text."""
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a")}) == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("env:A", "one"),
        ("${A}", "one"),
        ("x${A}y${B}z", "xoneytwoz"),
        ("plain", "plain"),
        ("$A {A} $ {A}", "$A {A} $ {A}"),
        ("file:token", "in the file"),
    ],
)
def test_each_way_to_write_one(tmp_path: Path, text: str, value: str) -> None:
    """``env:``, ``${}`` within a text, ``file:`` beside the configuration, and plain text."""
    (tmp_path / "token").write_text("in the file\r\n")
    assert resolve(text, {"A": "one", "B": "two"}, tmp_path).reveal() == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("env:", "does not name an environment variable"),
        ("env:A B", "does not name an environment variable"),
        ("env:A\n", "does not name an environment variable"),
        ("env:NONE", "variable NONE, which is not set"),
        ("${NONE}", "variable NONE, which is not set"),
        ("env:EMPTY", "variable EMPTY, which is empty"),
        ("file:none", "which cannot be read: it does not exist"),
        ("file:.", "which cannot be read: it is a directory"),
        ("file:empty", "which is empty"),
        ("file:binary", "which is not UTF-8"),
        ("file:large", f"more than {MAX_SECRET} octets"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, text: str, message: str) -> None:
    """The message has the variable's or file's name, and neither it nor its traceback any content."""
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(CANARY.encode() + b"\xff")
    (tmp_path / "large").write_bytes(CANARY.encode() * 20_000)
    with pytest.raises(ValueError, match=message.replace("{", "\\{")) as caught:
        resolve(text, {"EMPTY": "", "OTHER": CANARY}, tmp_path)
    assert CANARY not in "".join(traceback.format_exception(caught.value))


def test_what_counts_as_a_reference() -> None:
    """Keys that hold nothing but secrets accept these alone."""
    assert all(map(is_reference, ["env:A", "file:x", "${A}", "Bearer ${A}"]))
    assert not any(map(is_reference, ["hunter2", "", "$A", "environment", "${}", "${1}"]))


@pytest.mark.parametrize(
    ("text", "environ", "message"),
    [
        ("credential:a", {}, "CREDENTIALS_DIRECTORY is not set"),
        ("credential:../a", {"CREDENTIALS_DIRECTORY": "/run"}, "does not name a credential"),
        ("credential:", {"CREDENTIALS_DIRECTORY": "/run"}, "does not name a credential"),
        ("credential:none", {"CREDENTIALS_DIRECTORY": "{folder}"}, "cannot be read: it does not exist"),
    ],
)
def test_credentials_of_the_service_manager(tmp_path: Path, text: str, environ: dict[str, str], message: str) -> None:
    """One file of its directory, by its name; whatever is wrong is said without a word of the content."""
    (tmp_path / "token").write_text(CANARY + "\n")
    given = {name: value.replace("{folder}", str(tmp_path)) for name, value in environ.items()}
    assert resolve("credential:token", {"CREDENTIALS_DIRECTORY": str(tmp_path)}, Path("/")).reveal() == CANARY
    assert is_reference("credential:token")
    with pytest.raises(ValueError, match=message):
        resolve(text, given, tmp_path)
