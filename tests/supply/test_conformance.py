"""``agtp-conformance``: a distribution of its own, with the cases, and the results, of ``agtp conformance``."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tarfile
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import agtp_conformance
import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

import agtphost
from agtphost.client.local_identities import certified_agent
from agtphost.conformance.access import Role
from agtphost.identity.keys import SigningKey
from tests.system.hosting import Host, agtp, running, sample

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "packages" / "agtp-conformance"
DEPENDENCIES = ("cryptography", "cffi", "_cffi_backend", "pycparser", "jsonschema_rs", "re2")
OF_THE_HOST = {
    *("contract.manifest_rules", "contract.manifest_validation", "contract.method_parameters"),
    *("contract.schema_keywords", "contract.schema_violations", "contract.semantic", "contract.tool_names"),
    *("vocabulary.catalog", "vocabulary.catalog_versions", "vocabulary.expression_errors"),
    *("vocabulary.foreign_errors", "vocabulary.media_types", "vocabulary.paths"),
}
"""The modules that the runner shares with the host. Each is in the distribution: prefer a few lines of its own."""


def load_build() -> Any:
    spec = importlib.util.spec_from_file_location("hatch_build", FOLDER / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_has_few_modules_of_the_host() -> None:
    """And every module of the runner."""
    found = {name.removeprefix("agtphost.") for name in load_build().modules(ROOT, FOLDER / "agtp_conformance.py")}
    shared = {name for name in found if name.partition(".")[0] != "conformance"}
    assert shared - {"contract", "vocabulary"} == OF_THE_HOST
    runner = (ROOT / "agtphost" / "conformance").rglob("*.py")
    names = {".".join(path.relative_to(ROOT / "agtphost").with_suffix("").parts) for path in runner}
    assert {name.removesuffix(".__init__") for name in names} == found - shared


def test_an_import_is_followed(tmp_path: Path) -> None:
    """The control: a module that another one imports inside of a function."""
    command = tmp_path / "command.py"
    command.write_text("def f():\n    from agtphost.vocabulary import lru\n")
    assert set(load_build().modules(ROOT, command)) == {"agtphost.vocabulary", "agtphost.vocabulary.lru"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command, in an environment with nothing else of ours; its wheel is built from the sdist."""
    room = tmp_path_factory.mktemp("conformance")
    (sdist,) = SdistBuilder(str(FOLDER)).build(directory=str(room / "dist"), versions=["standard"])
    with tarfile.open(sdist) as archive:
        archive.extractall(room / "source", filter="data")
    (top,) = (room / "source").iterdir()
    (wheel,) = WheelBuilder(str(top)).build(directory=str(room / "dist"), versions=["standard"])
    venv.create(room / "venv", with_pip=False, symlinks=True)
    python = room / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", wheel], check=True, timeout=120)
    (place,) = (room / "venv").glob("lib/python3*/site-packages")
    # What it declares; the copies that are here stand for those from the registry.
    (here,) = {Path(path) for path in sys.path if (Path(path) / "jsonschema_rs").is_dir()}
    for name in DEPENDENCIES:
        for found in here.glob(f"{name}*"):
            (place / found.name).symlink_to(found)
    done = subprocess.run([python, "-c", "import agtphost"], capture_output=True, cwd=room)
    assert done.returncode == 1
    return python.with_name("agtp-conformance")


def run(command: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([command, *words], capture_output=True, text=True, timeout=280, cwd=command.parent)


def test_it_lists_the_cases_of_the_host(installed: Path) -> None:
    """Byte for byte."""
    assert run(installed, "--list").stdout == agtp("conformance", "--list").stdout


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A sample host of this module alone."""
    with running(sample(tmp_path_factory.mktemp("host"), eager=True)) as found:
        yield found


def credentials(host: Host) -> list[str]:
    """The options that name the credentials of a host's agent and of its registrar."""
    state, demo = host.state, host.state / "agents" / "demo"
    files = {"cacert": state / "ca.pem", "cert": demo / "agent.pem", "registrar-cert": state / "registrar.pem"}
    return [word for name, file in files.items() for word in (f"--{name}", str(file))]


def results(text: str) -> list[tuple[str, str, str]]:
    return [(case["id"], case["outcome"], case["message"]) for case in json.loads(text)["cases"]]


def test_its_results_are_those_of_the_host(installed: Path, host: Host, tmp_path: Path) -> None:
    """API-139: every case has the same outcome and message, each run on a fresh host: PROPOSE has a rate limit."""
    alone = run(installed, host.uri, *credentials(host), "--json")
    assert alone.returncode == 0, alone.stdout[-2000:] + alone.stderr
    with running(sample(tmp_path, eager=True)) as other:
        told = agtp("conformance", other.uri, *credentials(other), "--json")
    assert told.returncode == 0, told.stderr
    assert results(alone.stdout) == results(told.stdout)
    passed = {name for name, outcome, _ in results(alone.stdout) if outcome == "passed"}
    assert len(passed) >= 500 and {"identity.genesis-signature", "manifest.signature-verifies"} <= passed


def test_exit_statuses(installed: Path, host: Host) -> None:
    """1 for a failed case, 2 for wrong usage, 3 without connection."""
    trust = ("--cacert", str(host.state / "ca.pem"))
    assert run(installed, host.uri, *trust, "--only", "tls.*", "--strict").returncode == 1
    assert run(installed, "--only", "nothing.*", "--list").returncode == 2
    assert run(installed, host.uri, "--cert", "none.pem").returncode == 2
    assert run(installed, "agtp://127.0.0.1:1", *trust).returncode == 3


def test_it_has_the_version_of_the_host() -> None:
    """Its cases are those of this tree: both are released together, and it cannot read the host's."""
    assert agtp_conformance.__version__ == agtphost.__version__


def test_the_licence_comes_with_it(installed: Path) -> None:
    """MIT: the notice is part of every copy."""
    (licence,) = installed.parents[1].glob("lib/python3*/site-packages/agtp_conformance-*.dist-info/licenses/LICENSE")
    assert licence.read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert (ROOT / "packages" / "agtp-verify" / "LICENSE").read_bytes() == licence.read_bytes()


TARGET = "agtp://127.0.0.1:1"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        *((("--timeout", text), "--timeout") for text in ("0", "nan", "inf", "1e99", "-1")),
        *(((name, "A" * 64), name) for name in ("--agent-id", "--expendable")),
        (("--signing-key", "{file}"), "{file} has no Ed25519 public key"),
        (("--cert", "{file}"), "{file} has no certificate"),
        (("--junit", "{file}/report.xml"), "{file}/report.xml"),
    ],
)
def test_a_wrong_option_is_named(
    words: tuple[str, str], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is connected to: status 2, not 3, and no trace of Python after a run of minutes."""
    file = tmp_path / "file"
    file.write_bytes(b"\xff none of these")
    with pytest.raises(SystemExit) as caught:
        agtp_conformance.main([TARGET, *(word.format(file=file) for word in words)])
    assert caught.value.code == 2
    assert named.format(file=file) in capsys.readouterr().err


def test_credentials_are_read_as_the_host_reads_them(host: Host, tmp_path: Path) -> None:
    """The Agent-ID of a certificate, and the key identifier of a signing key."""
    key, cert = SigningKey.generate().public, host.state / "agents" / "demo" / "agent.pem"
    (tmp_path / "signing.pub").write_bytes(key.pem)
    words = [host.uri, "--cert", str(cert), "--signing-key", str(tmp_path / "signing.pub")]
    access = agtp_conformance.read_access(agtp_conformance.build_parser().parse_args(words))
    assert [*access.keys] == [key.kid]
    assert access.credentials[Role.AGENT].agent_id == certified_agent(cert)
    assert access.credentials[Role.AGENT].key == cert.with_suffix(".key")
