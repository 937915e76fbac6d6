"""
What the errors of RE2 and JMESPath mean: what is wrong in a regular expression or an expression, and what to do.

:func:`agtphost.vocabulary.foreign_errors.split` recognizes these errors by the names of their classes, and asks here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_LONGEST: Final = 40
"""Characters of an expression that a text quotes."""

_RE2: Final[tuple[tuple[re.Pattern[str], tuple[str, str]], ...]] = tuple(
    (re.compile(pattern, re.DOTALL), meaning)
    for pattern, meaning in (
        (r"^missing \)", ("a ( is not closed", r"close it, or write \( for the character")),
        (r"^unexpected \)", ("a ) closes nothing", r"remove it, or write \) for the character")),
        (r"^missing \]", ("a [ is not closed", r"close it, or write \[ for the character")),
        (r"^invalid character class range: (\[:.*|\\[pP].*)", (r"it has no character class \1", "write such as [a-z]")),
        (
            r"^invalid character class range: (.*)",
            (r"the range \1 ends before it begins", "write the lower character first"),
        ),
        (
            r"^no argument for repetition operator: (.*)",
            (r"\1 repeats nothing", r"write before it what repeats, or a backslash for the character"),
        ),
        (r"^bad repetition operator: (.*)", (r"\1 repeats a repetition", "write one of them, or a group between them")),
        (
            r"^invalid repetition size: (.*)",
            (r"the repetition \1 is not possible", "write at most 1000 in all groups together, the lower number first"),
        ),
        (
            r"^invalid perl operator: (\(\?(?:=|!|<=|<!|<|>|P=?))$",
            (r"\1 looks around or back, which takes more than linear time", "write it without"),
        ),
        (r"^invalid perl operator: \(\?i?$", ("a group after (? is not complete", "complete it, such as (?:[a-z]+)")),
        (
            r"^invalid perl operator: (.*)",
            (r"it has no group that begins with \1", "write (?: for a group without a name"),
        ),
        (r"^invalid named capture group: (.*)", (r"the group \1 has no name", "write such as (?P<name>[a-z]+)")),
        (
            r"^invalid escape sequence: (\\[1-9])",
            (r"\1 refers back to a group, which takes more than linear time", "write the group's expression again"),
        ),
        (
            r"^invalid escape sequence: (.*)",
            (r"it has no escape \1", "leave the backslash out, or write two for the character"),
        ),
        (r"^trailing \\", ("a backslash at its end escapes nothing", "remove it, or write two for the character")),
        (r"^pattern too large", ("it takes too much memory", "write smaller repetitions")),
    )
)
"""By the texts of RE2, which it has for each of its error codes."""

_KINDS: Final[Mapping[str, str]] = {
    "array": "a list",
    "array-number": "a list of numbers",
    "array-string": "a list of texts",
    "bool": "true or false",
    "boolean": "true or false",
    "dict": "an object",
    "expref": "an expression after &",
    "float": "a number",
    "int": "a number",
    "list": "a list",
    "NoneType": "null",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "str": "a text",
    "string": "a text",
}
"""Types of JMESPath, and of Python for members of lists."""


def explain_re2(error: BaseException) -> tuple[str, str]:
    """Return what an error of RE2 means, and what to do."""
    text = error.args[0] if error.args else ""
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    for pattern, (what, cure) in _RE2:
        if match := pattern.search(text):
            quoted = "" if match.lastindex is None else _quote(match[1])
            return what.replace(r"\1", quoted), cure
    return "its syntax is not that of RE2", "see github.com/google/re2/wiki/Syntax"


def explain_jmespath(error: Any) -> tuple[str, str]:
    """Return what an error of JMESPath means, and what to do."""
    kind = type(error).__name__
    if kind == "JMESPathTypeError":
        wanted = " or ".join(_KINDS.get(each, each) for each in error.expected_types)
        given = _KINDS.get(error.actual_type, str(error.actual_type))
        if any(each.startswith("array-") for each in error.expected_types) and given != "a list":
            given = f"one with {given}"
        return f"{error.function_name}() takes {wanted}, not {given}", "give it such a value"
    if kind in ("ArityError", "VariadictArityError"):
        return f"{error.function_name}() has {error.actual_arity} arguments", f"give it {error.expected_arity}"
    if kind == "IncompleteExpressionError" or getattr(error, "token_type", "") == "EOF":
        return "it ends too early", "complete it, and close its brackets"
    at = f"at character {getattr(error, 'lex_position', 0) + 1}"
    if kind == "LexerError":
        return _explain_character(str(error.lexer_value), error.message, at)
    if getattr(error, "token_type", "") == "NUMBER":
        number = _quote(error.token_value)
        return f"the number {number} {at} is not a value there", f"write `{number}` to compare, [{number}] for a member"
    if kind == "ParseError":
        return f"{_quote(error.token_value)!r} {at} is not expected there", "write an operator or a name before it"
    return "it cannot be read", "see jmespath.org"


def _explain_character(value: str, message: str, at: str) -> tuple[str, str]:
    """Return what a text means that no part of JMESPath begins with."""
    if message.startswith("Unclosed"):
        return f"the quotation {value[:1]} {at} is not closed", "close it"
    if "Unknown token" in message and value[:1] == "=":
        return f"a single = {at} compares nothing", "write =="
    return f"{_quote(value)!r} {at} has no meaning there", "put names with such characters into double quotes"


def _quote(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
