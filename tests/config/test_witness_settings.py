"""What is wrong with ``[audit] witnesses``, ``[[audit.witness_host]]`` and ``[[witness.logs]]``."""

from __future__ import annotations

from pathlib import Path

import pytest

from agtphost.errors import ConfigurationError
from tests.config.test_load import loaded
from tests.identity.samples import key_of

KEY = key_of("witnessing key")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[audit]\nwitnesses = ["https://w.test"]', "must be a URI"),
        ('[audit]\nwitnesses = ["agtp://w.test/agents/x"]', "URI of a host"),
        ('[audit]\nwitnesses = ["agtp://w.test?x=1"]', "URI of a host"),
        ('[audit]\nwitnesses = ["agtp://w.test", "agtp://w.test"]', "twice"),
        ("[audit]\nwitness_required = true", "requires an answer, but no witness is configured"),
        ('[audit]\nsigning = false\nwitnesses = ["agtp://w.test"]', "signed checkpoints"),
        ('[[audit.witness_host]]\nuri = "agtp://w.test"', "is not one of witnesses"),
        ('[[audit.witness_host]]\nca = "x"', "uri is missing"),
        (
            '[audit]\nwitnesses = ["agtp://w.test"]\n[[audit.witness_host]]\nuri = "agtp://w.test"\ncert = "x"',
            "together",
        ),
        ('[audit]\nwitnesses = ["agtp://w.test"]\n[[audit.witness_host]]\nuri = "agtp://w.test"\nca = "x"', "exist"),
        (
            '[audit]\nwitnesses = ["agtp://w.test"]\n[[audit.witness_host]]\nuri = "agtp://w.test"\nsigning_key = "x"',
            "signing_key cannot be used",
        ),
        ('[[witness.logs]]\nkey = "x"', "origin is missing"),
        ('[[witness.logs]]\norigin = "a.test"', "key is missing"),
        ('[[witness.logs]]\norigin = "a.test"\nkey = "x"', "key cannot be used"),
        ('[[witness.logs]]\norigin = "a.test"\nkey = "file:none.pub"', "key cannot be used"),
        (f'[audit]\nsigning = false\n[[witness.logs]]\norigin = "a.test"\nkey = "{KEY.public.text}"', "cosign"),
    ],
)
def test_what_cannot_be_witnessed(text: str, said: str, tmp_path: Path) -> None:
    """Each fault is said before the host starts."""
    with pytest.raises(ConfigurationError) as caught:
        loaded(tmp_path, text)
    assert said in str(caught.value)
