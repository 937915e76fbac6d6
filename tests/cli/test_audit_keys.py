"""``agtp audit verify --file`` of a host that changed its key: files, directories, and the first key alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from agtphost.identity import key_history
from tests.audit.test_successions import KEYS, Host
from tests.cli.conftest import Run


@pytest.fixture
def deployment(folder: Path) -> Path:
    """An export of a host with three keys, and what such a host keeps of them."""
    host = Host(folder)
    (folder / "records.jsonl").write_bytes(b"".join(host.export()))
    state = folder / "rotated"
    for link in host.links:
        key_history.keep(state / "keys", link)
    (state / "signing.pub").write_bytes(KEYS[-1].public.pem)
    for number, key in enumerate(KEYS):
        (folder / f"{number}.pub").write_bytes(key.public.pem)
    return folder


def verified(run: Run, *keys: str) -> tuple[int, Any]:
    words = [word for key in keys for word in ("--signing-key", key)]
    result = run("audit", "verify", "--file", "records.jsonl", *words, "--json")
    return result.exit_code, json.loads(result.stdout)


@pytest.mark.parametrize(
    "keys",
    [("0.pub",), ("0.pub", "1.pub", "2.pub"), ("rotated/keys",), ("rotated",), ("rotated/keys", "rotated/signing.pub")],
)
def test_what_is_enough(keys: tuple[str, ...], run: Run, deployment: Path) -> None:
    """The first key, all keys, the directory of them, the state directory: each verifies all, and names the ends."""
    status, answer = verified(run, *keys)
    assert (status, answer["verified"]) == (0, True)
    ends = {entry["kid"]: entry["not_after"] for entry in answer["keys"]}
    assert (
        ends.keys() == {key.kid for key in KEYS}
        and ends[KEYS[2].kid] is None
        and all(ends[key.kid] for key in KEYS[:2])
    )


def test_people_are_told_which_keys_followed_each_other(run: Run, deployment: Path) -> None:
    """The chain of custody, in its order."""
    result = run("audit", "verify", "--file", "records.jsonl", "--signing-key", "0.pub")
    assert "signing keys: " + ", then ".join(key.kid for key in KEYS) in result.output


@pytest.mark.parametrize("keys", [("1.pub",), ("2.pub",), ("1.pub", "2.pub")])
def test_a_later_key_does_not_vouch_for_the_first(keys: tuple[str, ...], run: Run, deployment: Path) -> None:
    """Records of a key that nobody named are marked, exit status 4."""
    status, answer = verified(run, *keys)
    assert status == 4 and answer["signature_unverified"]


def test_directories_that_cannot_be_read_are_named(run: Run, deployment: Path) -> None:
    """No key in it, a damaged statement, a missing file: exit status 2."""
    (deployment / "empty").mkdir()
    shutil.copytree(deployment / "rotated" / "keys", deployment / "damaged")
    (deployment / "damaged" / f"{KEYS[0].kid}.json").write_text("{}")
    for path in ("empty", "damaged", "nowhere"):
        result = run("audit", "verify", "--file", "records.jsonl", "--signing-key", path)
        assert result.exit_code == 2 and path in result.output
