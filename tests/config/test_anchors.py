"""``[identity]`` anchors, registrars and redirect: what is accepted, and how mistakes are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from agtphost.config import load
from agtphost.errors import ConfigurationError
from tests.identity.samples import key_of

KEY = key_of("anchors key").public.text
HEAD = '[host]\nserver_id = "h"\nprofile = "development"\nstate_dir = "state"\n'


def read(folder: Path, text: str) -> object:
    """The configuration's identity section."""
    file = folder / "host.toml"
    file.write_text(HEAD + text)
    return load(file, {}).identity


def test_everything_that_can_be_said(tmp_path: Path) -> None:
    """AGTP-123, AGTP-149, AGTP-294."""
    identity = read(
        tmp_path,
        f"""
[identity]
redirect_to = "AGTP.Acme.tld"
[identity.registrars]
"*" = ["{KEY}"]
"zone:acme" = ["{KEY}"]
[[identity.anchor]]
type = "key"
value = "{KEY}"
[[identity.anchor]]
type = "oidc"
name = "corporate"
discovery_url = "https://id.acme.tld/.well-known/openid-configuration"
trusted_issuer = "https://id.acme.tld"
refresh_seconds = 60
""",
    )
    assert identity.redirect_to == "agtp.acme.tld"  # type: ignore[attr-defined]
    assert [anchor.type for anchor in identity.anchor] == ["key", "oidc"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[identity]\nredirect_to = "127.0.0.1"', "redirect_to"),
        ('[identity]\nredirect_to = "acme.tld:99"', "redirect_to"),
        ('[identity]\nredirect_to = "acme.agent"', "redirect_to"),
        ('[identity.registrars]\n"*" = ["nonsense"]', "registrars"),
        ('[identity.registrars]\n"*" = ["file:missing.pem"]', "registrars"),
        ('[[identity.anchor]]\ntype = "key"', "value"),
        ('[[identity.anchor]]\ntype = "key"\nvalue = "nonsense"', "value"),
        ('[[identity.anchor]]\ntype = "oidc"\ntrusted_issuer = "x"', "discovery_url"),
        ('[[identity.anchor]]\ntype = "oidc"\ndiscovery_url = "http://a.tld/x"\ntrusted_issuer = "x"', "https"),
        (f'[[identity.anchor]]\ntype = "key"\nvalue = "{KEY}"\ntrusted_issuer = "x"', "trusted_issuer"),
        ('[[identity.anchor]]\ntype = "dns"', "type"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, text: str, said: str) -> None:
    """Each names its key, in its line."""
    with pytest.raises(ConfigurationError) as refused:
        read(tmp_path, text)
    problem = "\n".join(map(str, refused.value.problems))
    assert said in problem and "host.toml:" in problem
