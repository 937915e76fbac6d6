"""The runner's own check of a Genesis refuses what the host's reader refuses, and nothing else."""

from __future__ import annotations

import pytest

from agtphost.conformance.genesis import check_genesis
from agtphost.conformance.verdict import Failure
from agtphost.identity.canonical import CanonicalError
from agtphost.identity.genesis import Genesis, GenesisError
from tests.identity.samples import reference_genesis, resign
from tests.identity.test_genesis import AMBIGUOUS, KEY, MEMBERS, OCTETS, dump, mutations
from tests.rows import each_row

OTHERWISE = {
    *("a lone high surrogate", "a lone low surrogate", "surrogates the wrong way round", "owner decomposed"),
    *("nested 33 deep", "half a million names", "too long"),
}
"""Texts without canonical form or with another hash, which the case tests before; and some beyond the host's limits."""


def is_refused(octets: bytes) -> bool:
    try:
        check_genesis(octets)
    except (Failure, RecursionError):  # The runner counts both as failures.
        return True
    return False


def test_verdicts_are_those_of_the_host() -> None:
    """Each member is removed and replaced, and the result signed again: both readers say the same of it."""
    # The case has read the key, and verified the signature with it, before the form is checked.
    changed = [each for each in mutations(MEMBERS) if not each[0].startswith("issuer_public_key=")]
    changed += [(f"tier 1, {path}", {**MEMBERS, "trust_tier": 1, "verification_path": path, **more})
                for path in ("dns-anchored", "log-anchored", "hybrid", "org-asserted", "self-signed", None)
                for more in ({}, {"org_domain": "acme.tld"}, {"log_inclusion_proof": {"a": 1}})]  # fmt: skip
    verdicts = set()
    for what, members in changed:
        try:
            octets = resign(KEY, members)
        except CanonicalError:
            continue
        try:
            Genesis.load(octets)
        except GenesisError as error:
            assert is_refused(octets), f"{what}: {error}"
            verdicts.add(False)
        else:
            check_genesis(octets)
            verdicts.add(True)
    assert verdicts == {True, False}


def test_the_shape_of_deployed_implementations_is_accepted() -> None:
    check_genesis(OCTETS)
    check_genesis(dump(reference_genesis(KEY)[0]))


@each_row("name", sorted(AMBIGUOUS.keys() - OTHERWISE))
def test_an_ambiguous_text_is_refused(name: str) -> None:
    assert is_refused(AMBIGUOUS[name])


def test_a_refusal_names_the_member() -> None:
    with pytest.raises(Failure, match="/trust_tier is not one of"):
        check_genesis(dump({**MEMBERS, "trust_tier": 7}))
