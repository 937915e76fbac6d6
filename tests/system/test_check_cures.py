"""``agtp check`` says what is wrong, where, and what to write, and what it calls sound starts."""

from __future__ import annotations

import contextlib
import os
import random
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.programmes import length, seed_of_chance
from tests.system.hosting import Host, agtp, free_port, sample

Edit = Callable[[Path], object]

TIMEOUT = "timeout = 30\n"
RULE = '\n[mcp.server.tools.read_fil]\nscopes = ["a:b"]\n'


def in_file(name: str, old: str, new: str) -> Edit:
    """A replacement in a file beside ``host.toml``."""

    def edit(config: Path) -> None:
        file = config.parent / name
        text = file.read_text()
        assert old in text, (name, old)
        file.write_text(text.replace(old, new, 1))

    return edit


def command(script: str) -> Edit:
    """The MCP server runs this script."""

    def edit(config: Path) -> None:
        line = f'command = ["{{python}}", "{script}", "mcp/files"]'
        config.write_text(re.sub(r"(?m)^command = .*$", lambda _: line, config.read_text()))

    return edit


def appended(text: str) -> Edit:
    return lambda config: config.write_text(config.read_text() + text)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One mistake."""

    wrong: Edit
    says: str
    """A pattern of what is wrong, with the line and what to write."""

    cure: Edit
    """What the answer says to write."""

    sound: bool = False
    """Whether the host starts nevertheless; the answer is a note then."""

    words: tuple[str, ...] = ()


def absent(config: Path) -> str:
    return str(config.parent / "nowhere")


ROWS: dict[str, Row] = {
    "missing script": Row(
        wrong=command("mcp/file_server.py"),
        says=r"host\.toml:\d+: .* names a script that does not exist: \S*file_server\.py.*"
        r'did you mean "\S*files_server\.py"\?',
        cure=command("mcp/files_server.py"),
        sound=True,
    ),
    "rule for no tool": Row(
        wrong=appended(RULE),
        says=r"host\.toml:\d+: the configuration has rules for 'read_fil' of files.*did you mean 'read_file'",
        cure=in_file("host.toml", "read_fil]", "read_file]"),
        sound=True,
        words=("--ask",),
    ),
    "rule that was not compared": Row(
        wrong=appended(RULE),
        says=r"rules for tools of files were not compared .*agtp check --ask",
        cure=in_file("host.toml", RULE, ""),
        sound=True,
    ),
    "witness directory": Row(
        wrong=lambda config: appended(f'\n[audit]\nwitness = "{absent(config)}/witness.txt"\n')(config),
        says=r"host\.toml:\d+: \[audit\] witness lies in a directory that does not exist: \S+ \(run: mkdir -p \S+\)",
        cure=lambda config: os.makedirs(absent(config)),
    ),
    "revocation list": Row(
        wrong=appended('\n[tls]\nclient_crl = ["list.crl"]\n'),
        says=r"host\.toml:\d+: \[tls\] client_crl .*does not exist: \S+list\.crl \(fetch the list .*without the key",
        cure=in_file("host.toml", 'client_crl = ["list.crl"]\n', ""),
    ),
    "operators by name": Row(
        wrong=appended('\n[audit]\noperators = ["registrar"]\n'),
        says=r"host\.toml:\d+: \[audit\] operators\[1\] must be a key fingerprint.*`agtp cert show FILE` prints it",
        cure=in_file("host.toml", '"registrar"', f'"{"0" * 64}"'),
    ),
    "syntax error": Row(
        wrong=in_file("handlers/rooms.py", "def ", "def def "),
        says=r"handlers/rooms\.py:\d+: the module is not Python: SyntaxError: .*def def .* \(mend that line\)",
        cure=in_file("handlers/rooms.py", "def def ", "def "),
    ),
    "wrong type": Row(
        wrong=in_file("host.toml", TIMEOUT, 'timeout = "30"\n'),
        says=r"host\.toml:\d+: .* timeout must be a number, not '30' \(write timeout = 30\)",
        cure=in_file("host.toml", 'timeout = "30"\n', TIMEOUT),
    ),
    "approval is true": Row(
        wrong=in_file("host.toml", TIMEOUT, f"{TIMEOUT}approval = true\n"),
        says=r"host\.toml:\d+: .*approval must be one of required, irreversible, not true "
        r'\(write approval = "required"\)',
        cure=in_file("host.toml", "approval = true", 'approval = "required"'),
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_mistake_is_said_with_its_line_and_a_cure_that_works(name: str, tmp_path: Path) -> None:
    """What is said has a file, a line and what to write; with that written, nothing is said of it any more."""
    row = ROWS[name]
    config = sample(tmp_path)
    row.wrong(config)
    checked = agtp("check", str(config), *row.words)
    said = " ".join((checked.stdout + checked.stderr).split())
    assert re.search(row.says, said), said
    assert (checked.returncode == 0) is row.sound, said
    assert not re.search(r"^\s*$", checked.stderr.rstrip("\n"), re.MULTILINE), "an empty line"
    row.cure(config)
    mended = agtp("check", str(config), *row.words)
    said = " ".join((mended.stdout + mended.stderr).split())
    assert mended.returncode == 0 and not re.search(row.says, said), said


# Mistakes that nobody thought of

VALUE = re.compile(r"^(\s*[\w.]+\s*=\s*)(.+)$", re.MULTILINE)
WRONG = ('""', '"x"', "0", "-1", "true", "[]", "{}", '["x"]', "99999999999", "1.5", '"/nonexistent/x"', '"env:NOT_SET"')


FURTHER = """
[audit]
read_acl = "operator_only"
operators = ["b5bb9d8014a0f9b1d61e21e796d78dccdf1352f23cd32812f4850b878ae4944c"]
witness_seconds = 5.0

[approvals]
irreversible = true
by = ["operators"]

[limits]
connections = 100
request_timeout = 20

[store]
url = "sqlite:state/other.sqlite3"

[tls]
client_auth = "optional"

[lifecycle]
auth = "genesis_issuer"

[metrics]
listen = "tcp:{}:interface=127.0.0.1"
"""
"""Further sections, in every other host that a mistake is made in."""


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """What was made wrong."""

    file: str
    kind: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.file}: {self.kind}: {self.before!r} became {self.after!r}"


def make_mistake(config: Path, random: random.Random) -> Mistake:
    """Make one mistake in ``host.toml`` or an endpoint's file, and say which."""
    files = [config, config, *sorted((config.parent / "endpoints").glob("*.toml")), config.parent / "recipes.toml"]
    file = random.choice(files)
    text = file.read_text()
    values = list(VALUE.finditer(text))
    chosen = random.choice(values)
    kind = random.choice(("value", "value", "drop", "typo", "twice", "unclosed", "unquoted"))
    if kind == "value":
        new = chosen[1] + random.choice(WRONG)
    elif kind == "drop":
        new = ""
    elif kind == "typo":
        at = random.randrange(len(chosen[1].split("=")[0].strip()))
        key = chosen[1].split("=")[0].strip()
        new = f"{key[:at]}{key[at + 1 :]}x = {chosen[2]}"
    elif kind == "twice":
        new = f"{chosen[0]}\n{chosen[0]}"
    elif kind == "unclosed":
        new = chosen[0].rstrip('"]}')
    else:
        new = chosen[0].replace('"', "")
    file.write_text(text[: chosen.start()] + new + text[chosen.end() :])
    return Mistake(file=file.name, kind=kind, before=chosen[0], after=new)


FINDING = re.compile(r"^  (\S+\.(?:toml|py)):(\d+): (.+?) \((.+)\)$")
MEANT = re.compile(r"did you mean ['\"]([^'\"]+)['\"]\?")
WRITE = re.compile(r"(?:write|such as) (?:(\w+) = )?(.+)")
LEAVE_OUT = re.compile(r"\b(?:remove this line|leave (?:it|\w+) out)\b")


def value_of(text: str) -> str:
    """The TOML value that a text begins with."""
    for end in range(len(text), 0, -1):
        with contextlib.suppress(tomllib.TOMLDecodeError):
            tomllib.loads(f"a = {text[:end].rstrip(',')}\n")
            return text[:end].rstrip(",")
    raise AssertionError(f"no value to type: {text}")


def type_cure(lines: list[str], number: int, message: str, cure: str, before: str) -> None:
    """
    Do to a line what is said, as somebody does who knows nothing besides.

    :param before: the line as it was before the mistake: what belongs into quotes only its author knows.
    """
    line = lines[number - 1]
    key = line.partition("=")[0].strip()
    meant = MEANT.search(cure)
    written = WRITE.search(cure)
    if meant is not None and "unknown" in message:
        lines[number - 1] = line.replace(key, meant[1], 1)
    elif meant is not None:
        lines[number - 1] = f'{key} = "{meant[1]}"'
    elif written is not None and "instead of" in cure:
        lines[number - 1] = line.replace(key, written[2].split()[0], 1)
    elif cure.startswith("end this line with "):
        lines[number - 1] = line.rstrip() + cure.removeprefix("end this line with ")
    elif re.search(r"quotes|syntax|mend the module", cure):
        lines[number - 1] = before
    elif LEAVE_OUT.search(cure) and (written is None or written[1] is None):
        named = re.search(r"leave (?!it\b)(\w+) out", cure)
        while named is not None and not lines[number - 1].startswith(f"{named[1]} ="):
            number += 1
        del lines[number - 1]
    elif written is not None and written[1] in (None, key):
        lines[number - 1] = f"{key} = {value_of(written[2])}"
    elif written is not None:
        at = number if lines[number - 1].startswith("[") else number - 1
        # What is written stands for a value that the author knows.
        own = before.startswith(f"{written[1]} =")
        lines.insert(at, before if own else f"{written[1]} = {value_of(written[2])}")
    else:
        raise AssertionError(f"nothing to type: {message} ({cure})")


def type_cures(config: Path, mistake: Mistake) -> str:
    """Type the cure of every finding, until there is none; what is left of them, or nothing."""
    said = ""
    for _ in range(6):
        checked = agtp("check", str(config))
        if checked.returncode == 0:
            return ""
        said = checked.stdout + checked.stderr
        found = [FINDING.match(line) for line in checked.stderr.splitlines() if re.match(r"  \S+:\d+: ", line)]
        if not found or None in found:
            return f"a finding without file, line and cure: {said}"
        for match in sorted((each for each in found if each), key=lambda each: -int(each[2])):
            elsewhere = re.search(r"(?:in )?(\[(?:host|endpoints|recipes)\])", match[4])
            if elsewhere is not None:
                written = WRITE.search(match[4])
                line = 'python_path = ["."]' if written is None else f"{written[1]} = {value_of(written[2])}"
                file, lines = config, config.read_text().splitlines()
                at = lines.index(elsewhere[1]) + 1
                if lines[at].partition("=")[0] == line.partition("=")[0]:
                    del lines[at]
                lines.insert(at, line)
            elif "in an earlier step" in match[4]:
                file, name = Path(match[1]), match[4].split('"')[1]
                steps = file.read_text().split("[[recipe.step]]")
                without = [index for index, step in enumerate(steps) if index and "capture =" not in step]
                if without:
                    steps[without[0]] = f'\ncapture = "{name}"{steps[without[0]]}'
                # Else a step captures under another name: the one that was mistyped.
                text = "[[recipe.step]]".join(steps)
                lines = (text if without else text.replace(mistake.after, mistake.before)).splitlines()
            elif match[4].startswith("run: mkdir -p "):
                os.makedirs(match[4].removeprefix("run: mkdir -p "))
                continue
            else:
                file = Path(match[1])
                lines = file.read_text().splitlines()
                try:
                    type_cure(lines, int(match[2]), match[3], match[4], mistake.before)
                except AssertionError as error:
                    return f"{error}: {said}"
            file.write_text("\n".join(lines) + "\n")
    return f"still wrong after six rounds: {said}"


@pytest.mark.programme
def test_what_is_called_sound_starts(tmp_path: Path) -> None:
    """
    Generated mistakes: the host starts, or each finding has a file, a line and a cure, and is none once that is typed.

    200 of them with --programmes.
    """
    seed = seed_of_chance()
    source = random.Random(seed)
    wrong: list[str] = []
    for number in range(length(12, 200)):
        config = sample(tmp_path / str(number), append=FURTHER.format(free_port()) if number % 2 else "")
        mistake = make_mistake(config, source)
        if agtp("check", str(config)).returncode == 0:
            host = Host(config)
            try:
                host.wait()
            except AssertionError as error:
                wrong.append(f"{mistake}: sound, and does not start: {error}")
            finally:
                host.stop()
        else:
            left = type_cures(config, mistake)
            if left:
                wrong.append(f"{mistake}: {left}")
    assert not wrong, f"AGTP_SEED={seed}\n" + "\n".join(wrong)
