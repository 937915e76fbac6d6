"""``[merchant]``: what is read, and every way it can be wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from joserfc.jwk import KeySet, OctKey, OKPKey

from agtphost.config import load
from agtphost.errors import ConfigurationError

HEAD = '[host]\nserver_id = "h"\nprofile = "development"\n'
PLATFORM = "[[merchant.platform]]\nissuer = 'https://p'\n"


def write(folder: Path, text: str) -> Path:
    keys = KeySet([OKPKey.generate_key("Ed25519", {"kid": "k"})])
    (folder / "keys.json").write_text(json.dumps(keys.as_dict(private=True)))
    (folder / "shared.json").write_text(json.dumps(KeySet([OctKey.generate_key(256)]).as_dict(private=True)))
    file = folder / "host.toml"
    file.write_text(HEAD + text)
    return file


def test_defaults_believe_nobody(tmp_path: Path) -> None:
    """Without the section assertions are optional and none is believed."""
    merchant = load(write(tmp_path, ""), {}).merchant
    assert (merchant.platform, merchant.intent_required, merchant.quote_seconds) == ((), False, 900.0)


def test_a_platform_is_read_with_its_public_keys(tmp_path: Path) -> None:
    """The keys are read at once, without what only their owner has use for."""
    text = "[merchant]\nintent_required = true\nquote_seconds = 60.0\n" + PLATFORM + "jwks = 'keys.json'\n"
    merchant = load(write(tmp_path, text), {}).merchant
    platform = merchant.platform[0]
    assert (platform.issuer, platform.allowed_algs, merchant.intent_required) == ("https://p", ("EdDSA",), True)
    assert [key.is_private for key in platform.jwks.keys] == [False]


def test_two_platforms_of_one_name(tmp_path: Path) -> None:
    """Whose keys and algorithms count would be in doubt: both lines are named."""
    with pytest.raises(ConfigurationError) as caught:
        load(write(tmp_path, (PLATFORM + "jwks = 'keys.json'\n") * 2), {})
    assert [problem.line for problem in caught.value.problems] == [5, 8]
    assert "is repeated" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("[merchant]\nintent_requred = true\n", 5, "intent_requred is unknown"),
        ("[merchant]\nquote_seconds = 0.0\n", 5, "quote_seconds must be at least"),
        ("[merchant]\nintent_required = 1\n", 5, "intent_required must be"),
        (PLATFORM, 4, "jwks"),
        (PLATFORM + "jwks = 'nowhere.json'\n", 6, "cannot be used"),
        (PLATFORM + "jwks = 'host.toml'\n", 6, "cannot be used"),
        (PLATFORM + "jwks = 'shared.json'\n", 6, "cannot be used"),
        (PLATFORM + "jwks = 'keys.json'\nallowed_algs = ['HS256']\n", 7, "'HS256'"),
        (PLATFORM + "jwks = 'keys.json'\nallowed_algs = ['none']\n", 7, "'none'"),
        (PLATFORM + "jwks = 'keys.json'\nallowed_algs = []\n", 7, "allowed_algs"),
        (PLATFORM + "jwks = 'keys.json'\nleeway_seconds = 999.0\n", 7, "leeway_seconds must be at most"),
        ("[[merchant.platform]]\njwks = 'keys.json'\n", 4, "issuer is missing"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    """Unknown keys, values out of bounds, missing and unusable key files, algorithms that anyone could sign with."""
    with pytest.raises(ConfigurationError) as caught:
        load(write(tmp_path, text), {})
    assert [problem.line for problem in caught.value.problems] == [line]
    assert message in str(caught.value), str(caught.value)
