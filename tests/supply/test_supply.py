"""Dependencies and wheel: nothing undeclared, nothing unpinned, and the same wheel from the same source."""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from agtphost import __version__, extras
from tests.attacks.site import amend
from tests.programmes import CHOSEN
from tests.rows import each_row
from tests.supply.__main__ import main
from tests.supply.compiled import lend_compiled
from tests.supply.imports import imports
from tests.supply.lock import ROOT, locked, read
from tests.supply.sbom import normal
from tests.system.hosting import BIN, Host, agtp, free_port
from tests.system.up_host import typed, up

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
IMPORTED_AS = {
    "openssl": "pyopenssl",
    "re2": "google-re2",
    "zope": "zope-interface",
    "yaml": "pyyaml",
    "nacl": "pynacl",
    "opentelemetry": "opentelemetry-sdk",
}
"""Packages that are imported by another name than they are installed by."""


def names(requirements: list[str]) -> set[str]:
    """The packages of a list of requirements."""
    return {normal(re.split(r"[^A-Za-z0-9._-]", each, maxsplit=1)[0]) for each in requirements}


def package(imported: str) -> str:
    name = imported.lower().replace("_", "-")
    return IMPORTED_AS.get(name, name)


DECLARED = names(PROJECT["dependencies"])
OF_EXTRAS = {extra: names(asked) for extra, asked in PROJECT["optional-dependencies"].items()}


def undeclared(place: str, source: str) -> list[str]:
    """What a module imports and nothing declares, or what only an extra brings and it needs to be loaded."""
    found = []
    for each in imports(source):
        name = package(each.package)
        if name in DECLARED or each.when == "typing":
            continue
        extra = extras.PACKAGES.get(each.package)
        if extra is None or name not in OF_EXTRAS[extra]:
            found.append(f"{place} imports {each.package}, which nothing declares")
        elif each.when == "loaded" and f"/{extra}/" not in place:
            found.append(f"{place} imports {each.package} of the extra {extra} when it is loaded")
    return found


def test_every_import_is_declared() -> None:
    """Of the package and the plugin; what an extra brings is imported in use, or in a package of its name."""
    files = [*sorted((ROOT / "agtphost").rglob("*.py")), ROOT / "twisted" / "plugins" / "agtphost_plugin.py"]
    found = [wrong for file in files for wrong in undeclared(str(file.relative_to(ROOT)), file.read_text())]
    assert found == []


@each_row(
    "source",
    [
        "import httpx",
        "def f():\n    import httpx",
        "import_module('httpx.x')",
        "import joserfc",
        "from opentelemetry.x import y",
    ],
)
def test_an_undeclared_import_is_caught(source: str) -> None:
    """The control."""
    assert len(undeclared("agtphost/identity/planted.py", source)) == 1
    assert undeclared("agtphost/traces/planted.py", "import opentelemetry") == []
    assert undeclared("agtphost/client/quic/planted.py", "import aioquic") == []
    assert len(undeclared("agtphost/client/quic_planted.py", "import aioquic")) == 1
    assert undeclared("agtphost/identity/planted.py", "def f():\n    import joserfc") == []


UNIMPORTED = {
    "opentelemetry-api": "comes with opentelemetry-sdk, whose package it shares",
    "wordllama": "its data files are read; its own loader asks a model hub",
    "opentelemetry-exporter-otlp-proto-http": "shares the package of opentelemetry-sdk",
    "flask-swagger-ui": "carries the files of Swagger UI, which are read; none of its code is run",
}
"""Declared for what somebody else imports, or under another's name; and why."""

USED_BY = ("samples", "test", "docs", "dev")
"""Extras for programs that are not the package: the sample's server, tests, the site."""


def idle(of_package: set[str], of_extras: Mapping[str, set[str]]) -> set[str]:
    """What is declared for the package and imported nowhere in it."""
    files = [*(ROOT / "agtphost").rglob("*.py"), ROOT / "twisted" / "plugins" / "agtphost_plugin.py"]
    imported = {package(each.package) for file in files for each in imports(file.read_text())}
    declared = of_package.union(*(asked for extra, asked in of_extras.items() if extra not in USED_BY))
    return declared - imported - {"agtphost"}


def test_what_is_declared_is_imported() -> None:
    """Neither a dependency nor an extra names a package that nothing here imports, but those that say why."""
    assert idle(DECLARED, OF_EXTRAS) == set(UNIMPORTED)


def test_an_idle_dependency_is_caught() -> None:
    """The control: of the package itself, and of an extra."""
    found = idle(DECLARED | {"httpx"}, {**OF_EXTRAS, "cose": {"cbor2", "pycose"}})
    assert found - set(UNIMPORTED) == {"httpx", "pycose"}


def test_dependencies_are_few() -> None:
    """P22: ten at most beside what Twisted itself brings; the extras are those of the table."""
    twisted = names([each for each in importlib.metadata.requires("twisted") or [] if "dev" not in each])
    assert len(DECLARED - twisted) <= 10, sorted(DECLARED - twisted)
    assert set(extras.PACKAGES.values()) <= set(OF_EXTRAS)


@pytest.mark.parametrize("name", ["run", "dev", "build", "tools"])
def test_locks_are_whole(name: str) -> None:
    """Exact versions with hashes and no place; every requirement that is declared is among them, and satisfied."""
    pins = {pin.name: pin for pin in locked(name)}
    asked = {
        "run": DECLARED,
        "dev": DECLARED | OF_EXTRAS["test"] | OF_EXTRAS["dev"],
        "build": {"hatchling"},
        "tools": {"uv"},
    }[name]
    assert asked - {"agtphost"} - set(pins) == set()
    assert all(pin.hashes for pin in pins.values())


def test_what_runs_is_what_was_tested() -> None:
    """No version of run.lock is another one in dev.lock, and the one that is installed here is that of the lock."""
    run, dev = ({(pin.name, pin.version) for pin in locked(name)} for name in ("run", "dev"))
    assert run - dev == set()


@each_row(
    "planted",
    [
        "twisted==26.10.0",
        "twisted>=26 --hash=sha256:" + "a" * 64,
        "twisted @ file:///tmp/twisted.whl --hash=sha256:" + "a" * 64,
        "--index-url http://127.0.0.1/simple",
        "-e .",
        "twisted==26.10.0 --hash=md5:" + "a" * 32,
    ],
)
def test_a_pin_without_a_hash_is_caught(planted: str) -> None:
    """The control: nothing of this may stand in a lock file."""
    good = "zope-event==6.2 \\\n    --hash=sha256:" + "b" * 64
    assert [pin.name for pin in read(good)] == ["zope-event"]
    with pytest.raises(ValueError, match="not an exact version with hashes"):
        read(f"{good}\n{planted}\n")


def test_the_bill_of_materials(tmp_path: Path) -> None:
    """Every pin is a component with hashes and, where it is installed, a licence; twice the same octets."""
    main(tmp_path / "a")
    main(tmp_path / "b")
    text = (tmp_path / "a" / "sbom.cdx.json").read_text()
    assert text == (tmp_path / "b" / "sbom.cdx.json").read_text()
    found = json.loads(text)
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    assert [each["name"] for each in found["components"]] == [pin.name for pin in locked("run")]
    references = {each["bom-ref"] for each in found["components"]} | {found["metadata"]["component"]["bom-ref"]}
    assert {each["ref"] for each in found["dependencies"]} == references
    assert {other for each in found["dependencies"] for other in each["dependsOn"]} <= references
    lines = (tmp_path / "a" / "licences.txt").read_text().splitlines()
    assert len(lines) == len(found["components"])
    unknown = [line for line in lines if line.endswith("not installed here") and "colorama" not in line]
    assert len(unknown) < 5, unknown
    assert "twisted" in "".join(lines) and "MIT" in "".join(lines)


def test_there_is_one_version() -> None:
    """It stands in the package alone; pyproject.toml, what is installed, the command and the SBOM read it there."""
    assert "version" not in PROJECT and "version" in PROJECT["dynamic"]
    assert importlib.metadata.version("agtphost") == __version__
    assert agtp("--version").stdout.strip() == f"agtphost {__version__}"
    said = [
        str(file.relative_to(ROOT))
        for file in [*(ROOT / "agtphost").rglob("*.py"), *ROOT.glob("*.toml"), *ROOT.glob("docs/*.py")]
        if f'"{__version__}"' in file.read_text()
    ]
    assert said == ["agtphost/__init__.py"]


def wheel(source: Path, target: Path, umask: int) -> str:
    """Build it; its SHA-256."""
    environ = {**os.environ, "SOURCE_DATE_EPOCH": "1577836800"}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    subprocess.run(command, cwd=source, env=environ, check=True, capture_output=True, umask=umask)
    (built,) = target.glob("*.whl")
    return hashlib.sha256(built.read_bytes()).hexdigest()


def copy(target: Path) -> Path:
    """What goes into the wheel."""
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc", "dropin.cache", "state")
    for name in ("agtphost", "twisted", "etc", "docs"):
        shutil.copytree(ROOT / name, target / name, ignore=ignored, copy_function=shutil.copy)
    for name in ("pyproject.toml", "README.rst", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, target / name)
    return target


@pytest.mark.release
def test_the_wheel_is_reproducible(tmp_path: Path) -> None:
    """Built twice, from copies made at other times with other permissions: the same octets. One more octet is seen."""
    first, second = copy(tmp_path / "first"), copy(tmp_path / "second")
    for file in second.rglob("*.py"):
        os.utime(file, (1_000_000_000, 1_000_000_000))
    digest = wheel(first, tmp_path / "one", 0o022)
    assert wheel(second, tmp_path / "two", 0o027) == digest
    with (second / "agtphost" / "errors.py").open("a") as changed:
        changed.write("\n")
    assert wheel(second, tmp_path / "three", 0o022) != digest


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is in the wheel, and nothing of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    source = copy(folder / "source")
    # Somebody started the sample where it lies.
    (source / "etc" / "state").mkdir()
    (source / "etc" / "state" / "ca.key").touch()
    wheel(source, folder, 0o022)
    (built,) = folder.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        archive.extractall(folder / "installed")
    assert lend_compiled(folder / "installed") > 500
    return folder / "installed"


COMMANDS = """
import json, sys
from agtphost.cli import main
sys.stderr = sys.stdout
for words in json.loads(sys.argv[1]):
    sys.argv = ["agtp", *words]
    try:
        status = main()
    except SystemExit as ended:
        status = ended.code
    print(f"\\0{status or 0}\\0", end="", flush=True)
"""
"""A program that runs several commands, one after another: an interpreter that imports all of it takes seconds."""


def agtp_of(places: Iterable[Path | str], *commands: Sequence[str], cwd: Path) -> list[tuple[str, str]]:
    """
    Run commands of the package in one new interpreter.

    :param places: where it looks for modules first.
    :return: the exit status and the output of each.
    """
    program = [sys.executable, "-P", "-c", COMMANDS, json.dumps(commands)]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))}
    done = subprocess.run(program, cwd=cwd, capture_output=True, text=True, env=environ)
    parts = done.stdout.split("\0")
    assert len(parts) == 2 * len(commands) + 1, done.stdout + done.stderr
    return list(zip(parts[1::2], parts[0::2], strict=False))


def tracked(folder: str) -> set[str]:
    """Every file below a folder that is no product of something."""
    found = (path.relative_to(ROOT / folder) for path in (ROOT / folder).rglob("*") if path.is_file())
    return {str(path) for path in found if not {"__pycache__", "state"} & set(path.parts)}


def test_sample_and_pages_are_in_the_wheel(unpacked: Path, tmp_path: Path) -> None:
    """
    ``agtp init --sample`` and ``agtp docs`` of what the wheel has: sound, whole, and found there. No key of a host that
    was started in the checkout is among it.
    """
    init = ("init", "work", "--sample", "--port", str(free_port()))
    docs = (("docs", "--json"), ("docs", "first-minutes"))
    done = agtp_of([unpacked], init, ("check", "work"), *docs, cwd=tmp_path)
    assert [status for status, _ in done] == ["0"] * 4, done
    shipped = {str(path.relative_to(unpacked / "agtphost/shipped")) for path in unpacked.glob("agtphost/shipped/**/*")}
    wanted = {f"sample/{name}" for name in tracked("etc") if name.partition("/")[0] not in OPERATORS}
    assert wanted | {f"docs/{name}" for name in tracked("docs")} <= shipped
    assert not [name for name in shipped if "state" in Path(name).parts or name.endswith((".key", ".pem"))]
    pages = json.loads(done[2][1])
    assert all(page["file"].startswith(str(unpacked)) for page in pages)
    assert {"first-minutes", "README", "extending/handler"} <= {page["page"] for page in pages}
    assert "agtp up demo" in done[3][1]


OPERATORS = ("compose.ha.yaml", "grafana", "haproxy.cfg", "helm", "prometheus", "systemd")
"""Below etc, for those who run hosts, and no part of the sample."""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """An environment in which no package of an extra can be imported."""
    folder = tmp_path_factory.mktemp("plain")
    blocked = sorted(extras.PACKAGES)
    (folder / "sitecustomize.py").write_text(f"import sys\nfor name in {blocked!r}:\n    sys.modules[name] = None\n")
    yield {"PYTHONPATH": str(folder)}


@pytest.mark.release
@pytest.mark.slow
def test_a_plain_install_serves(plain: dict[str, str], tmp_path: Path) -> None:
    """Without any extra: `agtp init --production`, a host, a call, a table; and what needs an extra says which."""
    words = ("--production", "--server-id", "localhost", "--port", str(free_port()))
    command = [str(BIN / "agtp"), "init", str(tmp_path / "host"), *words]
    subprocess.run(command, env={**os.environ, **plain}, check=True, capture_output=True)
    config = tmp_path / "host" / "host.toml"
    host = Host(config, environ=plain)
    try:
        host.wait()
        wanting = tmp_path / "wanting"
        shutil.copytree(config.parent, wanting)
        amend(wanting, "policies", "synthesis_enabled = true")
        amend(wanting, "audit", 'envelope = "cose"')
        config = wanting / "host.toml"
        config.write_text(config.read_text() + "\n[metrics]\n")
        call = ("call", host.uri, "DISCOVER", "/methods", "--no-cert")
        commands = (("agent", "ls"), call, ("check", str(config)))
        listed, called, checked = agtp_of([plain["PYTHONPATH"]], *commands, cwd=tmp_path / "host")
        assert listed[0] == "0" and "assistant" in listed[1], listed
        assert called[0] == "0", called
    finally:
        assert host.stop() == 0
    assert checked[0] != "0", checked
    for extra in ("recipes", "cose", "metrics"):
        assert f"pip install 'agtphost[{extra}]'" in checked[1]
    assert agtp("check", str(config)).returncode == 0, "with the extras it is sound"


@pytest.mark.release
@pytest.mark.slow
def test_a_plain_install_is_worth_starting(plain: dict[str, str], tmp_path: Path) -> None:
    """`agtp up` without any extra: the sample's endpoints, calls that are verified, and what brings the rest."""
    with up(tmp_path, environ=plain) as host:
        assert "without the MCP server, recipes and negotiation: pip install 'agtphost[samples]'" in host.text
        assert "agtphost[bridge]" not in host.text, "the bridge is in a plain install"
        lines = [line.strip() for line in host.lines if line.startswith("  agtp ")]
        told = [typed(tmp_path, line, {"PATH": f"{BIN}:{os.environ['PATH']}", **plain}) for line in lines]
        assert [status for status, _ in told] == [0, 1, 0], told
        assert "Pride and Prejudice" in told[0][1] and "verified" in told[0][1]


def commands(text: str) -> list[str]:
    """What the recipe runs."""
    return re.findall(r"^RUN (.+)$", text, re.MULTILINE)


def test_ci_and_container_install_from_the_locks() -> None:
    """Every pip command of both asks for hashes, or installs what was just built from this source and nothing else."""
    readme = next(line for line in (ROOT / "README.rst").read_text().splitlines() if line.endswith("-m pytest"))
    said = [*commands((ROOT / "Containerfile").read_text()), *readme.split("&&")]
    installing = [part for line in said for part in line.split("&&") if "pip install" in part]
    assert len(installing) == 7
    for line in installing:
        assert "--require-hashes" in line or ("--no-deps" in line and ("--no-index" in line or "-e ." in line)), line
    assert "requirements/dev.lock" in readme and readme.strip().startswith("python3 -m venv .venv &&")


def plain_lock(lock: str) -> str:
    """Return a lock file with what a host without extras needs, and nothing else."""
    locked_names = {normal(name) for name in re.findall(r"^(\S+)==", lock, re.MULTILINE)}
    wanted: set[str] = set()
    more = set(DECLARED)
    while more:
        name = more.pop()
        wanted.add(name)
        # What brackets or a marker ask for beyond that is an extra's; TLS of Twisted is declared by itself.
        asked = [each for each in importlib.metadata.requires(name) or [] if "extra ==" not in each]
        more |= (names(asked) & locked_names) - wanted - {"colorama"}
    blocks = re.findall(r"^[a-z].*\\\n(?:    --hash=.*\n)+", lock, re.MULTILINE)
    kept = [block for block in blocks if normal(block.partition("==")[0]) in wanted]
    assert len(kept) >= len(DECLARED)
    return "".join(kept)


def quick_python(folder: Path) -> None:
    """A ``python3`` for ``-m venv`` alone: environments get the pip of this one, which takes no time, and no other."""
    (pip,) = importlib.import_module("pip").__path__
    script = folder / "python3"
    script.write_text(f"""#!/bin/sh -e
test "$1 $2" = "-m venv" && test "$#" = 3
{sys.executable} -m venv --without-pip "$3"
(cd "$3"/lib/python*/site-packages && ln -s {pip} pip)
printf '#!/bin/sh\\nexec %s/bin/python -m pip "$@"\\n' "$3" > "$3/bin/pip"
chmod +x "$3/bin/pip"
""")
    script.chmod(0o755)


@pytest.mark.release
@pytest.mark.programme
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_commands_of_the_container_recipe_work(tmp_path: Path) -> None:
    """
    All but useradd, links and Debian's packages, in other directories: from the lock files to a host that says its
    version. Shortened, pip is not installed into the environments, and what extras bring is left out.
    """
    source = copy(tmp_path / "src")
    shutil.copytree(ROOT / "requirements", source / "requirements")
    places = {"/build": tmp_path / "build", "/wheels": tmp_path / "wheels", "/opt/agtphost": tmp_path / "opt"}
    places["/opt/uv"] = tmp_path / "uv"
    (tmp_path / "wheels").mkdir()
    shutil.copy(source / "requirements" / "tools.lock", tmp_path / "wheels")
    run = (source / "requirements" / "run.lock").read_text()
    (tmp_path / "wheels" / "run.lock").write_text(run if CHOSEN.whole else plain_lock(run))
    # What nobody runs need not be compiled; pip reads a word that begins with "no" the other way round.
    environ = {**os.environ, "SOURCE_DATE_EPOCH": "1577836800", "PIP_NO_COMPILE": "0"}
    if not CHOSEN.whole:
        quick_python(tmp_path)
        environ["PATH"] = f"{tmp_path}:{environ['PATH']}"
    for line in commands((ROOT / "Containerfile").read_text()):
        if line.startswith(("useradd", "apt-get", "install -d", "ln ")):
            continue
        for place, here in places.items():
            line = re.sub(rf"(^|[ =]){re.escape(place)}\b", rf"\g<1>{here}", line)
        done = subprocess.run(["sh", "-c", line], cwd=source, env=environ, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    for site in (tmp_path / "opt").glob("lib/python3*/site-packages"):
        lend_compiled(site)
    done = subprocess.run([str(tmp_path / "opt" / "bin" / "agtp"), "--version"], capture_output=True, text=True)
    assert done.stdout.startswith("agtphost "), done.stderr
