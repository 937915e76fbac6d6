"""Other catalogs, further versions, profiles, and what a removal leaves: AGTP-API sections 3.3, 4 and 9.4."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from twisted.logger import LogEvent, globalLogPublisher

from agtphost.cli.root import agtp
from agtphost.contract.manifest import Policies
from agtphost.errors import ConfigurationError
from agtphost.host.host_loader import LoadedHost, load_host
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.catalog_pin import Pin, place
from tests.host.hosts import reloaded
from tests.system.hosting import ETC, sample
from tests.vocabulary.test_catalog_set import HEALTH, document


def deployment(directory: Path, *, append: str, files: dict[str, Any]) -> Path:
    """A copy of ``etc/`` with more configuration and JSON files beside it; returns its host.toml."""
    file = sample(directory, append=append)
    for name, value in files.items():
        (file.parent / name).write_text(json.dumps(value))
    return file


def started(file: Path) -> tuple[LoadedHost, list[str]]:
    """What the host is made of, and what it told its operator."""
    said: list[str] = []

    def observe(event: LogEvent) -> None:
        said.extend(str(event[key]) for key in ("problem", "warning") if key in event)

    globalLogPublisher.addObserver(observe)
    try:
        return load_host(reloaded(file)), said
    finally:
        globalLogPublisher.removeObserver(observe)


def endpoint_using(file: Path) -> tuple[str, Path]:
    """A method that one endpoint of the samples has, which no alias or floor needs, and that endpoint's file."""
    shipped = Catalog.load()
    for path in sorted((file.parent / "endpoints").glob("*.toml")):
        method = path.read_text().split('method = "', 1)[1].split('"', 1)[0]
        if method not in shipped.embedded and method not in shipped.legacy.values():
            return method, path
    raise AssertionError("every sample uses a floor method")


def test_an_alternative_catalog_is_the_one_that_counts(tmp_path: Path) -> None:
    """API-024, API-012, API-013: its version is the host's, and the only one supported."""
    file = deployment(tmp_path, append='\n[catalog]\npath = "own.json"\n', files={"own.json": document("9.9.9")})
    loaded, _ = started(file)
    assert loaded.catalog.version == "9.9.9"
    assert loaded.catalogs.versions == ("9.9.9",)


def test_endpoints_of_removed_methods_are_left_out_and_named(tmp_path: Path) -> None:
    """API-017: each is logged with file and line, and the host has all the others, although on_error is refuse."""
    file = deployment(tmp_path, append='\n[catalog]\npath = "own.json"\n', files={})
    before, _ = started(deployment(tmp_path / "before", append="", files={}))
    method, _ = endpoint_using(file)
    (file.parent / "own.json").write_text(json.dumps(document("2.0.0", **{method: None})))
    loaded, said = started(file)
    lines = [line for line in said if f"the method {method} was removed" in line]
    assert lines and all(".toml:" in line and "2.0.0" in line for line in lines)
    gone = {endpoint.name for endpoint in before.endpoints if endpoint.method == method}
    assert len(lines) == len(gone)
    kept = {endpoint.name for endpoint in loaded.endpoints}
    assert kept < {endpoint.name for endpoint in before.endpoints} | {""}
    assert gone.isdisjoint(kept)
    assert "ECHO /text" in kept


def test_what_needs_a_removed_method_goes_with_it(tmp_path: Path) -> None:
    """API-017: a recipe that calls it, and the endpoint made of that recipe, are told and left out as well."""
    file = deployment(
        tmp_path, append='\n[catalog]\npath = "own.json"\n', files={"own.json": document("2.0.0", BOOK=None)}
    )
    loaded, said = started(file)
    assert any("recipes.toml" in line and "BOOK" in line for line in said)
    assert {endpoint.method for endpoint in loaded.endpoints}.isdisjoint({"BOOK"})
    assert not [endpoint for endpoint in loaded.endpoints if endpoint.handler.type == "composition"]


def test_other_faults_of_endpoints_follow_on_error(tmp_path: Path) -> None:
    """The control: a method that no catalog ever had keeps the host from starting."""
    file = deployment(tmp_path, append='\n[catalog]\npath = "own.json"\n', files={"own.json": document("2.0.0")})
    method, path = endpoint_using(file)
    path.write_text(path.read_text().replace(f'method = "{method}"', 'method = "FROBNICATE"'))
    with pytest.raises(ConfigurationError, match=r"FROBNICATE is not in catalog 2\.0\.0"):
        load_host(reloaded(file))


def test_a_pinned_upgrade_remembers_what_it_removed(tmp_path: Path) -> None:
    """API-017: methods of an operator's own earlier catalog count as removed, too."""
    file = deployment(tmp_path, append='\n[catalog]\npath = "own.json"\n', files={"own.json": document("3.0.0")})
    own = file.parent / "own.json"
    place(own).write_bytes(Pin.for_catalog(own.read_bytes(), ["FROBNICATE"]).octets())
    method, path = endpoint_using(file)
    path.write_text(path.read_text().replace(f'method = "{method}"', 'method = "FROBNICATE"'))
    _, said = started(file)
    assert any("the method FROBNICATE was removed" in line for line in said)


POLICY = """
[catalog]
path = "own.json"
[policies.methods]
allow = ["QUERY", "AUDIT"]
disallow = ["AUDIT", "TRANSFER"]
[[policies.methods.redirects]]
from_method = "AUDIT"
to_method = "CHECK"
"""


def test_policy_entries_of_removed_methods_are_skipped_each_with_a_warning(tmp_path: Path) -> None:
    """API-019: allow, disallow and redirects; what is sound besides applies."""
    file = deployment(tmp_path, append=POLICY, files={"own.json": document("2.0.0", AUDIT=None)})
    loaded, said = started(file)
    skipped = [line for line in said if "AUDIT is not in catalog 2.0.0" in line]
    assert {line.split("] ", 1)[1].split(":", 1)[0] for line in skipped} == {"allow", "disallow", "redirects"}
    assert loaded.policy.disallow == {"TRANSFER"}
    assert loaded.policy.redirects == ()


def test_several_versions_keep_the_endpoints_of_each(tmp_path: Path) -> None:
    """AGTP-API section 4.8: while the old version is supported, its endpoints and policy entries are."""
    append = POLICY.replace('path = "own.json"', 'path = "own.json"\nversions = ["old.json"]')
    file = deployment(tmp_path, append=append, files={"old.json": document("1.1.0")})
    method, _ = endpoint_using(file)
    (file.parent / "own.json").write_text(json.dumps(document("2.0.0", AUDIT=None, **{method: None})))
    loaded, said = started(file)
    assert loaded.catalogs.versions == ("2.0.0", "1.1.0")
    assert method in {endpoint.method for endpoint in loaded.endpoints}
    assert not [line for line in said if "removed" in line or "AUDIT is not in" in line]


PROFILE = """
[catalog]
profiles = ["health.json"]
[policies.methods]
custom = ["GREETSOMEONE"]
"""


def test_a_declared_profile_adds_its_methods(tmp_path: Path) -> None:
    """AGTP-256, API-006: an endpoint may use them, and the manifest's policy names the profile."""
    declared = PROFILE + 'profiles = ["agtp-profile-healthcare"]\n'
    file = deployment(tmp_path, append=declared, files={"health.json": HEALTH})
    method, path = endpoint_using(file)
    path.write_text(path.read_text().replace(f'method = "{method}"', 'method = "PRESCRIBE"'))
    loaded, _ = started(file)
    assert "PRESCRIBE" in {endpoint.method for endpoint in loaded.endpoints}
    assert loaded.policy.custom == {"GREETSOMEONE", "PRESCRIBE"}
    assert loaded.policy.document()["profiles"] == ["agtp-profile-healthcare"]


def test_a_profile_that_is_not_declared_adds_nothing(tmp_path: Path) -> None:
    """AGTP-256: the same endpoint without the declaration keeps the host from starting."""
    file = deployment(tmp_path, append=PROFILE, files={"health.json": HEALTH})
    method, path = endpoint_using(file)
    path.write_text(path.read_text().replace(f'method = "{method}"', 'method = "PRESCRIBE"'))
    with pytest.raises(ConfigurationError, match="PRESCRIBE is not in catalog"):
        load_host(reloaded(file))


@pytest.mark.parametrize(
    ("append", "files", "message"),
    [
        ('[catalog]\npath = "own.json"\n', {"own.json": {}}, "version is not a version"),
        ('[catalog]\nversions = ["own.json"]\n', {"own.json": document("1.1.0")}, "supported by another"),
        ('[catalog]\nversions = ["own.json"]\n', {}, "names a file that does not exist"),
        ('[catalog]\nprofiles = ["own.json"]\n', {"own.json": {"name": "x"}}, "name is not of the form"),
        ('[policies.methods]\nprofiles = ["agtp-profile-x"]\n', {}, "names agtp-profile-x, which no file"),
        ('[policies.methods]\nprofiles = ["healthcare"]\n', {}, "not a profile name"),
        ('[policies.methods]\ncustom = ["DO_IT"]\n', {}, "not a method name"),
        ('[policies.methods]\nlegacy = ["GETT"]\n', {}, "GETT"),
        ('[policies.methods.aliases]\nAAA = "BBB"\nBBB = "FETCH"\n', {}, "alias"),
    ],
)
def test_what_is_wrong_keeps_the_host_from_starting_and_check_says_so(
    tmp_path: Path, append: str, files: dict[str, Any], message: str
) -> None:
    """API-005, API-088, API-090: with the file that is to blame; ``agtp check`` finds the same without starting."""
    file = deployment(tmp_path, append="\n" + append, files=files)
    with pytest.raises(ConfigurationError) as caught:
        load_host(reloaded(file))
    problem = next(problem for problem in caught.value.problems if message in problem.message)
    assert problem.file
    checked = CliRunner().invoke(agtp, ["check", str(file)], prog_name="agtp")
    assert checked.exit_code == 2
    assert message in checked.stderr


def test_check_lets_a_removed_method_pass_as_the_host_does(tmp_path: Path) -> None:
    """API-017: exit status 0 means that the host would start."""
    file = deployment(tmp_path, append='\n[catalog]\npath = "own.json"\n', files={})
    method, _ = endpoint_using(file)
    (file.parent / "own.json").write_text(json.dumps(document("2.0.0", **{method: None})))
    checked = CliRunner().invoke(agtp, ["check", str(file)], prog_name="agtp")
    assert checked.exit_code == 0, checked.output


@pytest.mark.parametrize(
    ("append", "expected"),
    [
        ("", (False, True, True, False, 10)),
        (
            "\n[policies]\nwildcards_accepted = true\nanonymous_discovery = false\nmax_synthesis_depth = 3\n",
            (True, False, True, False, 3),
        ),
    ],
)
def test_policies_are_published_as_they_are_configured(
    tmp_path: Path, append: str, expected: tuple[object, ...]
) -> None:
    """API-077: the five members of ``policies``, the default depth 10."""
    text = (ETC / "host.toml").read_text()
    policies = text[text.index("[policies]") : text.index("# A real MCP server")]
    file = sample(tmp_path, edit=[(policies, "")], append=append)
    policies = reloaded(file).policies
    shown = Policies(
        methods=started(file)[0].policy,
        wildcards_accepted=policies.wildcards_accepted,
        anonymous_discovery=policies.anonymous_discovery,
        scope_required_for_invocation=policies.scope_required_for_invocation,
        synthesis_enabled=policies.synthesis_enabled,
        max_synthesis_depth=policies.max_synthesis_depth,
    ).document()
    names = ("wildcards_accepted", "anonymous_discovery", "scope_required_for_invocation", "synthesis_enabled")
    assert tuple(shown[name] for name in (*names, "max_synthesis_depth")) == expected
    assert started(file)[0].policy.wildcards_accepted is expected[0]
