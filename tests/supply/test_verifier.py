"""``agtp-verify``: a distribution of its own, short, that shares nothing with the host."""

from __future__ import annotations

import ast
import random
import subprocess
import sys
import venv
from io import BytesIO
from pathlib import Path

import agtp_verify
import cryptography
import pytest
from hatchling.builders.wheel import WheelBuilder

from agtphost.audit.checkpoint import verifier_key
from agtphost.audit.export import ExportError, verify_export
from agtphost.identity.keys import SigningKey
from tests.audit.drafting import KEY
from tests.audit.test_independent import exported

FOLDER = Path(__file__).resolve().parents[2] / "packages" / "agtp-verify"
SOURCE = (FOLDER / "agtp_verify.py").read_text()
ALLOWED = sys.stdlib_module_names | {"cryptography"}


def foreign(source: str) -> set[str]:
    """Packages that a module imports and that are not allowed."""
    named = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            named |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            named.add((node.module or "").partition(".")[0])
    return named - ALLOWED


def test_it_is_short_and_needs_cryptography_alone() -> None:
    """Fewer than 400 lines, none of them imports Twisted or the host."""
    assert len(SOURCE.splitlines()) < 400
    assert foreign(SOURCE) == set()
    assert ast.get_docstring(ast.parse(SOURCE))


def test_a_foreign_import_is_noticed() -> None:
    """The control."""
    assert foreign(SOURCE + "\nfrom agtphost.audit import verify\n") == {"agtphost"}


def test_its_wheel_works_alone(tmp_path: Path) -> None:
    """Built, installed into an environment that has nothing else of ours, and run by its name."""
    (wheel,) = WheelBuilder(str(FOLDER)).build(directory=str(tmp_path / "dist"), versions=["standard"])
    room = tmp_path / "venv"
    venv.create(room, with_pip=False, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", str(room / "bin" / "python"), "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", wheel], check=True, timeout=120)
    (place,) = room.glob("lib/python3*/site-packages")
    # cryptography is what it declares; the copy that is here already stands for the one from the registry.
    for name in ("cryptography", "cffi", "_cffi_backend", "pycparser"):
        for found in Path(cryptography.__file__).parents[1].glob(f"{name}*"):
            (place / found.name).symlink_to(found)
    (tmp_path / "audited").mkdir()
    export, key = tmp_path / "records.jsonl", tmp_path / "signing.pub"
    export.write_bytes(b"".join(exported(tmp_path / "audited")))
    key.write_bytes(KEY.public.pem)
    command = [str(room / "bin" / "agtp-verify"), str(export), "--key", str(key)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 0 and "VERIFIED: 8 records of agtp.test" in done.stdout, done.stdout + done.stderr
    key.write_bytes(SigningKey.generate().public.pem)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 1 and "NOT VERIFIED" in done.stdout and "no known key signed it" in done.stdout


def test_the_printed_verifier_key_is_a_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--key`` takes what ``agtp audit checkpoint`` prints, as it is or in a file; a sign that is wrong is noticed."""
    export = tmp_path / "records.jsonl"
    export.write_bytes(b"".join(exported(tmp_path)))
    printed = verifier_key("agtp.test", KEY.public)
    (tmp_path / "host.vkey").write_text(f"{printed}\n")
    for given in (printed, str(tmp_path / "host.vkey")):
        assert agtp_verify.main([str(export), "--key", given]) == 0, capsys.readouterr().err
    name, mark, key = printed.split("+", 2)
    other = verifier_key("agtp.test", SigningKey.generate().public)
    assert agtp_verify.main([str(export), "--key", other]) == 1
    assert agtp_verify.main([str(export), "--key", f"{name}+{'0' * len(mark)}+{key}"]) == 2
    assert "the verifier key is damaged" in capsys.readouterr().err


@pytest.mark.parametrize("seed", range(4))
def test_it_agrees_with_the_host_about_damage(seed: int, tmp_path: Path) -> None:
    """Whole lines exchanged, doubled, left out, bits flipped: both say no, and neither breaks."""
    print(f"seed {seed}")
    chance, lines = random.Random(seed), exported(tmp_path)
    for _ in range(40):
        hostile = [bytearray(line) for line in lines]
        what, at, other = chance.randrange(4), chance.randrange(1, len(lines)), chance.randrange(1, len(lines))
        if what == 0:
            del hostile[at]
        elif what == 1:
            hostile.insert(at, hostile[other])
        elif what == 2 and at != other:
            hostile[at], hostile[other] = hostile[other], hostile[at]
        else:
            hostile[at][chance.randrange(len(hostile[at]))] ^= 1 << chance.randrange(8)
        octets = [bytes(line) for line in hostile]
        assert not verify_export(octets, {KEY.kid: KEY.public}).ok
        assert agtp_verify.verify(BytesIO(b"".join(octets)), [KEY.public.raw]).faults
    assert not agtp_verify.verify(BytesIO(b"".join(lines)), [KEY.public.raw]).faults, "the control"


@pytest.mark.parametrize(
    "octets",
    [b"", b"\n", b"[]", b"{}", b'{"format":"agtp-audit-export/1"}\n', b"\xff" * 99, b"[" * 100_000, b'{"a":1,"a":2}'],
)
def test_what_is_no_export_is_said_to_be_none(octets: bytes, tmp_path: Path) -> None:
    """Status 2, one line on the error output, by the host's verifier as well."""
    file, key = tmp_path / "file", tmp_path / "key"
    file.write_bytes(octets)
    key.write_bytes(KEY.public.pem)
    assert agtp_verify.main([str(file), "--key", str(key)]) == 2
    with pytest.raises(ExportError):
        verify_export(iter(octets.splitlines(keepends=True)), {KEY.kid: KEY.public})
