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
    "operator's file elsewhere": Row(
        wrong=in_file("host.toml", 'key = "state/registrar.pem"', 'key = "state/registraar.pem"'),
        says=r"host\.toml:\d+: \[operator\] \"admin\" key names a file that does not exist: \S*registraar\.pem "
        r'\(write key = "\S*/state/registrar\.pem", which the first start makes; or the fingerprint that ',
        cure=in_file("host.toml", "registraar", "registrar"),
    ),
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
    "list for text": Row(
        wrong=in_file("host.toml", '"agtphost sample"', '["x"]'),
        says=r'host\.toml:\d+: \[host\] operator must be text, not a list \(write operator = "x"\)',
        cure=in_file("host.toml", '["x"]', '"x"'),
    ),
    "empty name of a function": Row(
        wrong=in_file("endpoints/rooms.toml", '"handlers.rooms.book"', '""'),
        says=r"has 1 problem: \S+rooms\.toml:14: BOOK /room: .*is not a dotted path such as package\.module\.function "
        r'\(write function = "handlers\.rooms\.book"\)',
        cure=in_file("endpoints/rooms.toml", '""', '"handlers.rooms.book"'),
    ),
    "directory of modules missing": Row(
        wrong=in_file("host.toml", 'python_path = ["."]', ""),
        says=r'library\.toml:12: .*No module named .* \(write python_path = \["\."\] in \[endpoints\]\)',
        cure=in_file("host.toml", "[endpoints]", '[endpoints]\npython_path = ["."]'),
    ),
    "directory of modules gone": Row(
        wrong=lambda config: os.rename(config.parent / "handlers", config.parent.parent / "elsewhere"),
        says=r"rooms\.toml:14: .*No module named 'handlers'.* \(mend the module, or the name; .* python_path says",
        cure=lambda config: os.rename(config.parent.parent / "elsewhere", config.parent / "handlers"),
    ),
    "module with a null byte": Row(
        wrong=in_file("handlers/rooms.py", "ROOMS = ", "\0"),
        says=r"has 1 problem: \S+handlers/rooms\.py:1: the module is not Python: .*null bytes \(mend that line\)",
        cure=in_file("handlers/rooms.py", "\0", "ROOMS = "),
    ),
    "recipe that is no name": Row(
        wrong=in_file("endpoints/reading.toml", '"reading-stay"', '"a/b"'),
        says=r'reading\.toml:14: .*handler\.recipe .* is not NAME or NAME@VERSION \(write recipe = "reading-stay"\)',
        cure=in_file("endpoints/reading.toml", '"a/b"', '"reading-stay"'),
    ),
    "capture that is no name": Row(
        wrong=in_file("recipes.toml", '"stay"', '"/x"'),
        says=r"recipes\.toml:\d+: .*capture '/x' is not a name such as first_room \(write capture = \"stay\"\)",
        cure=in_file("recipes.toml", '"/x"', '"stay"'),
    ),
    "method in lower case": Row(
        wrong=in_file("endpoints/text.toml", '"ECHO"', '"echo"'),
        says=r'text\.toml:1: .*method \'echo\' is not a method name .* \(write method = "ECHO"\)',
        cure=in_file("endpoints/text.toml", '"echo"', '"ECHO"'),
    ),
    "method misspelt": Row(
        wrong=in_file("endpoints/text.toml", '"ECHO"', '"ECHOO"'),
        says=r'text\.toml:1: .*method ECHOO is not in catalog \S+ \(write method = "ECHO"\)',
        cure=in_file("endpoints/text.toml", '"ECHOO"', '"ECHO"'),
    ),
    "state where nothing can be created": Row(
        wrong=in_file("host.toml", 'state_dir = "state"', 'state_dir = "/proc/agtp"'),
        says=r"/proc: \[host\] state_dir /proc/agtp cannot be created.* \(name another directory, such as state_dir = ",
        cure=in_file("host.toml", "/proc/agtp", "state"),
    ),
    "path of a step": Row(
        wrong=in_file("recipes.toml", '"/library/{isbn}"', "-1"),
        says=r'recipes\.toml:18: .*path must be a text \(write path = "/library/\{isbn\}"\)',
        cure=in_file("recipes.toml", "path = -1", 'path = "/library/{isbn}"'),
    ),
    "path of an endpoint": Row(
        wrong=in_file("endpoints/library.toml", '"/library/{isbn}"', "-1"),
        says=r'library\.toml:3: .*path must be a text \(write path = "/library/\{isbn\}"\)',
        cure=in_file("endpoints/library.toml", "path = -1", 'path = "/library/{isbn}"'),
    ),
    "header of endpoints misspelt": Row(
        wrong=in_file("endpoints/rooms.toml", "\n[[endpoint]]\n", "\n[[endpont]]\n"),
        says=r'has 1 problem: \S+rooms\.toml:2: endpont is unknown \(did you mean "endpoint"\?\)',
        cure=in_file("endpoints/rooms.toml", "[[endpont]]", "[[endpoint]]"),
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
WRONG = ('""', '"x"', "0", "-1", "true", "[]", "{}", '["x"]', "99999999999", "1.5", '"nowhere/x"', '"env:NOT_SET"')


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


HEADER = re.compile(r"^\[+[\w.]+\]+$", re.MULTILINE)

Change = Callable[[str, str, str, random.Random], str]
"""From a key, its value and the file's text to what stands there instead of the line."""


def _drop_letter(word: str, source: random.Random) -> str:
    at = source.randrange(len(word))
    return word[:at] + word[at + 1 :]


def _misspell(header: str, source: random.Random) -> str:
    """Drop a letter from one word of a header."""
    word = source.choice(list(re.finditer(r"\w\w+", header)))
    return header[: word.start()] + _drop_letter(word[0], source) + header[word.end() :]


def _other_value(key: str, value: str, text: str, source: random.Random) -> str:
    return f"{key} = {source.choice(list(VALUE.finditer(text)))[2]}"


def _number_as_text(key: str, value: str, text: str, source: random.Random) -> str:
    return f"{key} = {value[1:-1]}" if value.startswith('"') else f'{key} = "{value}"'


OF_LINES: dict[str, Change] = {
    "value": lambda key, value, text, source: f"{key} = {source.choice(WRONG)}",
    "drop": lambda key, value, text, source: "",
    "typo": lambda key, value, text, source: f"{_drop_letter(key, source)}x = {value}",
    "two letters": lambda key, value, text, source: f"{key[:-1]}{key[-2:]} = {value}",
    "case": lambda key, value, text, source: f"{source.choice((key.upper(), key.title()))} = {value}",
    "twice": lambda key, value, text, source: f"{key} = {value}\n{key} = {value}",
    "unclosed": lambda key, value, text, source: f"{key} = {value}".rstrip('"]}'),
    "unopened": lambda key, value, text, source: f"{key} = {value.replace(chr(34), '', 1)}",
    "unquoted": lambda key, value, text, source: f"{key} = {value}".replace('"', ""),
    "other value": _other_value,
    "number as text": _number_as_text,
    "colon": lambda key, value, text, source: f"{key}: {value}",
    "no equals sign": lambda key, value, text, source: f"{key} {value}",
    "word processor": lambda key, value, text, source: re.sub('"([^"]*)"', "\u201c\\1\u201d", f"{key} = {value}"),
    "tab": lambda key, value, text, source: f"\t{key}\t=\t{value}\t",
    "carriage return": lambda key, value, text, source: f"{key} = {value}\r",
    "comma": lambda key, value, text, source: f"{key} = {value},",
}
"""Mistakes in the line of a key, by kind."""

OF_HEADERS: dict[str, Callable[[str, str, random.Random], str]] = {
    "header misspelt": lambda header, text, source: _misspell(header, source),
    "header unclosed": lambda header, text, source: header[:-1],
    "header unopened": lambda header, text, source: header[1:],
    "header doubled": lambda header, text, source: f"{header}\n{header}",
    "header of another kind": lambda header, text, source: header[1:-1] if header[1] == "[" else f"[{header}]",
}
"""Mistakes in the header of a table, by kind."""

OF_FILES: dict[str, Callable[[str, random.Random], str]] = {
    "section again": lambda text, source: f"{text}\n{source.choice(HEADER.findall(text) or ['[host]'])}\n",
    "lines of Windows": lambda text, source: text.replace("\n", "\r\n"),
    "lines of old Macs": lambda text, source: text.replace("\n", "\r"),
    "byte order mark": lambda text, source: f"\ufeff{text}",
}
"""Mistakes in a file as a whole, by kind."""

KINDS = (*OF_LINES, *OF_HEADERS, *OF_FILES)


def make_mistake(config: Path, source: random.Random, kind: str) -> Mistake:
    """Make one mistake in ``host.toml``, an endpoint's file or the recipes, and say which."""
    files = [config, config, *sorted((config.parent / "endpoints").glob("*.toml")), config.parent / "recipes.toml"]
    file = source.choice(files)
    text = file.read_text()
    if kind in OF_FILES:
        changed = OF_FILES[kind](text, source)
        file.write_bytes(changed.encode())
        return Mistake(
            file=file.name, kind=kind, before="", after=changed[len(text) :] if changed[:9] == text[:9] else ""
        )
    chosen = source.choice(list((HEADER if kind in OF_HEADERS else VALUE).finditer(text)))
    if kind in OF_HEADERS:
        new = OF_HEADERS[kind](chosen[0], text, source)
    else:
        new = OF_LINES[kind](chosen[1].split("=")[0].strip(), chosen[2], text, source)
    file.write_bytes((text[: chosen.start()] + new + text[chosen.end() :]).encode())
    return Mistake(file=file.name, kind=kind, before=chosen[0], after=new)


FINDING = re.compile(r"^  (\S+\.(?:toml|py)):(\d+): (.+?) \((.+)\)$")
MEANT = re.compile(r"did you mean ['\"]([^'\"]+)['\"]\?")
WRITE = re.compile(r"(?:write|such as) (?:([\w-]+) = )?(.+)")
LEAVE_OUT = re.compile(r"\b(?:remove (?:this line|it)|leave (?:it|[\w-]+) out)\b")
INSTEAD = re.compile(r"write (\S+) (?:instead|in place) of (\S+?)(?:, |$)")
IN_LINE = re.compile(r"write (\[\S+\]) in line (\d+) too")
WRITE_HEADER = re.compile(r"write (\[+[\w.]+\]+)(?: (above it|instead of this line))?")
MOVE = re.compile(r"move it below (\[\S+\])")
AGAIN = re.compile(r"is not TOML: .* \((\[\S+) is there twice: remove this line")
TYPED = str.maketrans({"\u201c": '"', "\u201d": '"', "\u00a0": " "})


def value_of(text: str) -> str:
    """The TOML value that a text begins with."""
    for end in range(len(text), 0, -1):
        with contextlib.suppress(tomllib.TOMLDecodeError):
            tomllib.loads(f"a = {text[:end].rstrip(',')}\n")
            return text[:end].rstrip(",")
    raise AssertionError(f"no value to type: {text}")


def below(lines: list[str], number: int) -> int:
    """The line, counted from 0, of the header after a line that is counted from 1."""
    after = (at for at in range(number, len(lines)) if lines[at].startswith("["))
    return next(after, len(lines))


def type_cure(lines: list[str], number: int, message: str, cure: str, before: str) -> None:
    """
    Do to a line what is said, as somebody does who knows nothing besides.

    :param before: the line as it was before the mistake: what belongs into quotes only its author knows.
    """
    line = lines[number - 1]
    key = line.partition("=")[0].strip()
    unknown = re.search(r"([\w-]+)\]* is unknown$", message)
    meant, written, instead, header = (each.search(cure) for each in (MEANT, WRITE, INSTEAD, WRITE_HEADER))
    if meant is not None and unknown is not None:
        assert re.search(rf"\b{unknown[1]}\b", line), f"{unknown[1]} is not in the line: {line}"
        lines[number - 1] = re.sub(rf"\b{re.escape(unknown[1])}\b", meant[1], line, count=1)
    elif meant is not None:
        lines[number - 1] = f'{key} = "{meant[1]}"'
    elif cure.startswith("end this line with "):
        lines[number - 1] = line.rstrip() + cure.removeprefix("end this line with ")
    elif cure.startswith("begin this line with "):
        lines[number - 1] = cure.removeprefix("begin this line with ") + line
    elif cure == "remove the comma at the end of this line":
        lines[number - 1] = line.rstrip().rstrip(",")
    elif (put := re.match(r"replace (\[\S+\]) by (\[\S+\])", cure)) is not None:
        assert put[1] in line, f"{put[1]} is not in the line: {line}"
        lines[number - 1] = line.replace(put[1], put[2])
    elif cure.startswith("replace U+"):
        lines[number - 1] = line.translate(TYPED)
    elif cure.startswith("save it without a byte order mark"):
        lines[0] = lines[0].removeprefix("\ufeff")
    elif cure.startswith("put = between"):
        name, value = re.split(r"\s*[:\s]\s*", line, maxsplit=1)
        lines[number - 1] = f"{name} = {value}"
    elif (moved := MOVE.match(cure)) is not None:
        del lines[number - 1]
        lines.insert(lines.index(moved[1]) + 1, line)
    elif "is there twice: remove this line" in cure:
        end = below(lines, number)
        block = lines[number:end]
        del lines[number - 1 : end]
        first = lines.index(line)
        lines[first + 1 : first + 1] = block
    elif (other := IN_LINE.match(cure)) is not None:
        lines[int(other[2]) - 1] = other[1]
    elif instead is not None and instead[2] != "this":
        assert instead[2] in line, f"{instead[2]} is not in the line: {line}"
        lines[number - 1] = line.replace(instead[2], instead[1])
    elif header is not None and cure.startswith("write ["):
        if header[2] == "above it":
            lines.insert(number - 1, header[1])
        else:
            lines[number - 1] = header[1]
    elif cure == "remove the quotes around the value":
        lines[number - 1] = f"{key} = {line.partition('=')[2].strip()[1:-1]}"
    elif (swapped := re.match(r"write (['\"]) for the first (['\"]) of this line", cure)) is not None:
        lines[number - 1] = line.replace(swapped[2], swapped[1], 1)
    elif cure.startswith("complete ") and cure.endswith(' add = "..." and } to this line'):
        lines[number - 1] = line + ' = "x"}'
    elif cure.startswith("put the value into quotes"):
        lines[number - 1] = f"{key} = " + '"' + line.partition("=")[2].strip().strip('"') + '"'
    elif cure.startswith("put each text of "):
        lines[number - 1] = before
    elif LEAVE_OUT.search(cure) and (written is None or written[1] is None):
        named = re.search(r"leave (?!it\b)([\w-]+) out", cure)
        within = None if named is None else re.search(rf"(?<=[{{,]) *{named[1]} = (?:\"[^\"]*\"|[^,}}]*),?", line)
        if within is not None:
            # One of several in a table of one line.
            lines[number - 1] = re.sub(", *}", " }", line[: within.start()] + line[within.end() :])
            return
        while named is not None and not lines[number - 1].startswith(f"{named[1]} ="):
            assert number < len(lines), f"there is no {named[1]} to leave out: {cure}"
            number += 1
        whole = lines[number - 1].startswith("[") and "this line" not in cure
        del lines[number - 1 : below(lines, number) if whole else number]
    elif written is not None and written[1] in (None, key):
        lines[number - 1] = f"{key} = {value_of(written[2])}"
    elif written is not None:
        at = number if lines[number - 1].startswith("[") else number - 1
        lines.insert(at, f"{written[1]} = {value_of(written[2])}")
    else:
        raise AssertionError(f"nothing to type: {message} ({cure})")


def read_lines(file: Path) -> list[str]:
    """The lines of a file, with carriage returns that are no part of an end of line."""
    return file.read_bytes().decode().replace("\r\n", "\n").removesuffix("\n").split("\n")


def type_cures(config: Path, mistake: Mistake) -> str:
    """Type the cure of every finding, until there is none; what is left of them, or nothing."""
    said = ""
    for _ in range(6):
        checked = agtp("check", str(config))
        if checked.returncode == 0:
            return ""
        said = "\n".join(line for line in checked.stderr.splitlines() if not line.startswith("note: "))
        found = [FINDING.match(line) for line in checked.stderr.splitlines() if re.match(r"  \S+:\d+: ", line)]
        if not found or None in found:
            return f"a finding without file, line and cure: {said}"
        for match in sorted((each for each in found if each), key=lambda each: -int(each[2])):
            elsewhere = re.search(r"in (\[(?:host|endpoints|recipes)\])", match[4])
            file = Path(match[1])
            if match[4].startswith("run: mkdir -p "):
                os.makedirs(match[4].removeprefix("run: mkdir -p "))
            elif match[4].startswith("save it with lines that end with LF"):
                file.write_bytes(re.sub(rb"\r\n?", b"\n", file.read_bytes()))
            elif elsewhere is not None:
                written = WRITE.search(match[4])
                lines = read_lines(config)
                if written is None or elsewhere[1] not in lines:
                    return f"nothing to type: {said}"
                at = lines.index(elsewhere[1]) + 1
                line = f"{written[1]} = {value_of(written[2])}"
                if lines[at].partition("=")[0] == line.partition("=")[0]:
                    del lines[at]
                lines.insert(at, line)
                config.write_text("\n".join(lines) + "\n")
            else:
                lines = read_lines(file)
                try:
                    type_cure(lines, int(match[2]), match[3], match[4], mistake.before)
                except AssertionError as error:
                    return f"{error}: {said}"
                file.write_text("\n".join(lines) + "\n")
    return f"still wrong after six rounds: {said}"


def test_an_operator_without_a_key_file_is_reported_once(tmp_path: Path) -> None:
    """It is an error; the warning of a start about the same fault is no note beside it."""
    config = sample(tmp_path)
    ROWS["operator's file elsewhere"].wrong(config)
    checked = agtp("check", str(config))
    assert (checked.returncode, checked.stderr.count("admin")) == (2, 1), checked.stderr


@pytest.mark.programme
def test_what_is_called_sound_starts(tmp_path: Path) -> None:
    """
    Generated mistakes: the host starts, or each finding has a file, a line and a cure, and is none once that is typed.

    One of every third kind, and 200 of any with --programmes.
    """
    seed = seed_of_chance()
    source = random.Random(seed)
    wrong: list[str] = []
    for number in range(0, length(len(KINDS), 200), length(3, 1)):
        # Every other one has a wrong value.
        kind = KINDS[number % len(KINDS)] if number < len(KINDS) or number % 2 else "value"
        config = sample(tmp_path / str(number), append=FURTHER.format(free_port()) if number % 2 else "")
        mistake = make_mistake(config, source, kind)
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
