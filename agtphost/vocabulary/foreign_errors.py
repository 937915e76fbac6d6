"""
What the errors of the system and of foreign libraries mean, in our words: what is wrong, and what to do.

The texts of OpenSSL, SQLite, the operating system and Python's parsers name neither the setting nor the way out.
:func:`explain` replaces them, :func:`original_of` keeps them for ``--json`` and the log. Errors are recognized by the
names of their classes, so that no library is imported for this. The errors of PostgreSQL are explained in
:mod:`agtphost.stores.postgres.error_texts`, those of TOML in :mod:`agtphost.vocabulary.tomltext`, those of RE2 and
JMESPath in :mod:`agtphost.vocabulary.expression_errors`.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from agtphost.vocabulary.expression_errors import explain_jmespath, explain_re2

Meaning = tuple[str, str]
"""What is wrong, and what to do about it; the second may be empty."""

_SYSTEM: Final[Mapping[int, Meaning]] = {
    errno.ENOENT: ("it does not exist", "correct the path, or create it"),
    errno.EISDIR: ("it is a directory", "name a file"),
    errno.ENXIO: ("it is a pipe, a socket or a device", "name a file"),
    errno.ENOTDIR: ("a part of its path is not a directory", "correct the path"),
    errno.EACCES: ("this user has no right to", "change its owner or mode, or run this as another user"),
    errno.EPERM: ("this user has no right to", "change its owner or mode, or run this as another user"),
    errno.EEXIST: ("it exists already", "choose another name, or move it away"),
    errno.ENOTEMPTY: ("the directory is not empty", "choose another name, or move it away"),
    errno.EROFS: ("its file system is read-only", "choose a place that can be written"),
    errno.ENOSPC: ("the disk is full", "free some space, or choose another disk"),
    errno.EDQUOT: ("this user's quota of the disk is used up", "free some space, or choose another disk"),
    errno.EFBIG: ("it would be larger than files may be", "raise the limit of file sizes (ulimit -f)"),
    errno.EIO: ("the disk reports an error", "check the disk"),
    errno.ELOOP: ("its symbolic links form a loop", "correct the links"),
    errno.ENAMETOOLONG: ("its name is too long", "choose a shorter one"),
    errno.ENOEXEC: ("it is not a program", "name a program, or begin the script with #!"),
    errno.ETXTBSY: ("it is a program that runs", "stop it first"),
    errno.EMFILE: ("too many files are open", "raise the limit of open files (ulimit -n)"),
    errno.ENFILE: ("too many files are open on this machine", "raise the system's limit of open files"),
    errno.ENOMEM: ("there is not enough memory", "free some memory"),
    errno.ECONNREFUSED: ("nothing listens there", "check host and port, and that the server runs"),
    errno.ECONNRESET: ("the other side closed the connection", "check that host and port are those of the server"),
    errno.ECONNABORTED: ("the connection was ended", "check that host and port are those of the server"),
    errno.EPIPE: ("the other side closed the connection", "check that host and port are those of the server"),
    errno.ETIMEDOUT: ("it did not answer in time", "check host and port, and the network between"),
    errno.EHOSTUNREACH: ("no network leads there", "check the host's address, and the network"),
    errno.ENETUNREACH: ("no network leads there", "check the host's address, and the network"),
    errno.EADDRINUSE: ("another program listens there", "stop it, or choose another port"),
    errno.EADDRNOTAVAIL: ("this machine does not have that address", "choose one of its addresses, such as 127.0.0.1"),
    errno.EAFNOSUPPORT: ("this machine has no addresses of that kind", "choose another address"),
}

LONGEST_SOCKET_PATH: Final = 103
"""Octets of the path of a socket that every POSIX system accepts: of macOS; Linux has 107."""

_UNRESOLVED: Final[Meaning] = ("its name has no address", "correct the host's name, or check the DNS settings")

_TLS: Final[tuple[tuple[str, Meaning], ...]] = (
    ("certificate has expired", ("its certificate has expired", "have it renewed")),
    ("not yet valid", ("its certificate is not valid yet", "check this machine's clock")),
    ("hostname mismatch", ("its certificate is for another name", "use a name that is in the certificate")),
    ("ip address mismatch", ("its certificate is for another address", "use a name that is in the certificate")),
    (
        "self-signed",
        ("its certificate is not of a trusted authority", "name its authority with --cacert, or in host.toml with ca"),
    ),
    (
        "self signed",
        ("its certificate is not of a trusted authority", "name its authority with --cacert, or in host.toml with ca"),
    ),
    (
        "issuer certificate",
        ("its certificate is not of a trusted authority", "name its authority with --cacert, or in host.toml with ca"),
    ),
    ("verify failed", ("its certificate is not trusted", "name its authority with --cacert, or in host.toml with ca")),
    ("no certificate or crl found", ("it holds no PEM certificate", "name a PEM file with certificates")),
    ("no start line", ("it holds no PEM text of the expected kind", "name a PEM file")),
    ("key values mismatch", ("the key is not the certificate's", "name the key made with the certificate")),
    ("no certificate assigned", ("the key is not the certificate's", "name the key made with the certificate")),
    ("bad decrypt", ("the key has a passphrase", "remove it: openssl pkey -in KEY -out NEW")),
    ("bad password", ("the key has a passphrase", "remove it: openssl pkey -in KEY -out NEW")),
    ("ee key too small", ("the certificate's key is too short", "use P-256, Ed25519 or RSA of 2048 bits or more")),
    ("ca key too small", ("an authority's key is too short", "use P-256, Ed25519 or RSA of 2048 bits or more")),
    ("md too weak", ("the certificate is signed with SHA-1 or MD5", "have it signed with SHA-256")),
    ("not in pem", ("it is not PEM", "convert it: openssl x509 -inform DER -in FILE -out NEW")),
    ("wrong version number", ("what listens there does not speak TLS", "check host and port")),
    ("http request", ("what listens there speaks HTTP without TLS", "check host and port")),
    ("record layer", ("what listens there does not speak TLS", "check host and port")),
    ("protocol version", ("it speaks no TLS version that is accepted here", "have it updated to TLS 1.3")),
    ("unsupported protocol", ("it speaks no TLS version that is accepted here", "have it updated to TLS 1.3")),
    ("certificate required", ("it wants a client certificate", "give one with --cert and --key")),
    ("unknown ca", ("it does not trust the client certificate", "use one of an authority that it trusts")),
    ("alert", ("it ended the TLS handshake", "check host and port, and the client certificate")),
    ("eof", ("it closed the connection during the TLS handshake", "check host and port")),
    (
        "timed out",
        ("it did not answer the TLS handshake in time", "check that host and port are those of a TLS server"),
    ),
)
"""By parts of OpenSSL's reasons, in lower case and with spaces; the first that fits counts."""

_TLS_OTHER: Final[Meaning] = ("the TLS handshake failed", "check host and port, certificates and keys")

_SQLITE: Final[Mapping[str, Meaning]] = {
    "SQLITE_NOTADB": ("it is not a SQLite database", ""),
    "SQLITE_CORRUPT": ("the database is damaged", ""),
    "SQLITE_CANTOPEN": ("it cannot be opened", "check that it is a file, and that its directory can be written"),
    "SQLITE_IOERR": ("its disk cannot be read or written, or it is not a file", "check the path and the disk"),
    "SQLITE_READONLY": ("it is read-only", "let this user write the file and its directory"),
    "SQLITE_PERM": ("this user has no right to", "change its owner or mode, or run this as another user"),
    "SQLITE_BUSY": ("another program has it locked", "end that program"),
    "SQLITE_LOCKED": ("another program has it locked", "end that program"),
    "SQLITE_FULL": ("the disk is full", "free some space"),
    "SQLITE_ERROR": ("its tables are not those of a store", ""),
    "SQLITE_SCHEMA": ("its tables are not those of a store", ""),
    "SQLITE_TOOBIG": ("a value is too long", ""),
    "SQLITE_NOMEM": ("there is not enough memory", "free some memory"),
}

_TEXTS: Final[tuple[tuple[re.Pattern[str], Meaning], ...]] = tuple(
    (re.compile(pattern), meaning)
    for pattern, meaning in (
        ("^Unable to load (PEM|certificate)|MalformedFraming", ("it holds no PEM text", "name a PEM file")),
        (
            "^Password was not given|bad decrypt",
            ("the key has a passphrase", "remove it: openssl pkey -in KEY -out NEW"),
        ),
        ("^Could not deserialize key", ("it holds no private key in PEM", "name a PEM file with a key")),
        ("^error parsing asn1|ParseError|InvalidData", ("its content is not valid DER", "name another file")),
        ("^embedded null", ("it contains the character NUL", "remove that character")),
        ("^No closing quotation", ("a quotation mark is not closed", "close it, or escape it with a backslash")),
        ("^No escaped character", ("a backslash at its end escapes nothing", "remove it, or write two")),
        ("^Invalid IPv6 URL", ("its square brackets hold no IPv6 address", "write such as [::1]")),
        ("^netloc .* contains invalid", ("its host name has a character that is not allowed", "correct the name")),
        ("^Port (could not be cast|out of range)", ("its port is not a number from 0 to 65535", "correct the port")),
        ("does not appear to be an IPv[46]", ("it is not an IP address or range", "write such as 127.0.0.1")),
        ("has host bits set", ("it has bits set beyond its length", "write the network's first address")),
        ("^invalid literal for int", ("a number is expected", "write digits")),
        ("^(Incorrect padding|Non-base64|Invalid base64|Only base64|Excess|Leading padding)", ("it is not base64", "")),
        ("port must be 0-65535", ("its port is not a number from 0 to 65535", "correct the port")),
        ("^Unknown (endpoint|address) type", ("its kind is unknown", "write tcp:PORT")),
    )
)
"""Texts of cryptography, the standard library and Twisted's endpoints, whose errors have no special class."""

_JSON: Final[Mapping[str, str]] = {
    "Expecting value": "a value is expected",
    "Expecting property name enclosed in double quotes": "a member's name in double quotes is expected",
    "Illegal trailing comma before end of object": "a comma precedes the closing bracket",
    "Illegal trailing comma before end of array": "a comma precedes the closing bracket",
    "Expecting ',' delimiter": "a comma or a closing bracket is expected",
    "Expecting ':' delimiter": "a colon is expected after a member's name",
    "Unterminated string starting at": "a string is not closed",
    "Invalid control character at": "a string has a control character, which has to be escaped",
    "Invalid \\escape": "a string has a backslash that escapes nothing; write two",
    "Invalid \\uXXXX escape": "a string has \\u without four hexadecimal digits",
    "Extra data": "there is more text after the value",
}

_YAML: Final[tuple[tuple[str, str], ...]] = (
    ("found character '\\t'", "a tab begins a value or indents a line; use spaces"),
    ("found character that cannot start", "a value begins with a character that YAML reserves; put it into quotes"),
    ("unexpected end of stream", "a quotation mark is not closed"),
    ("expected node content", "a value is expected, or a bracket is not closed"),
    ("expected ',' or ']'", "a comma or ] is expected"),
    ("expected ',' or '}'", "a comma or } is expected"),
    ("expected key", "the indentation differs from the lines before"),
    ("expected '-' indicator", "the indentation differs from the lines before"),
    ("expected <document start>", "a new document begins here; write a single one"),
    ("expected <block end>", "the indentation differs from the lines before"),
    ("mapping values are not allowed", "a value contains a colon; put the value into quotes"),
    ("could not find expected ':'", "a colon is expected after a member's name"),
    ("unknown escape character", "a backslash escapes nothing in this string; write two"),
    ("undefined alias", "an alias (*) names no anchor (&)"),
    ("duplicate anchor", "an anchor (&) occurs twice"),
    ("special characters are not allowed", "it has a control character"),
    ("control characters are not allowed", "it has a control character"),
    ("unacceptable character", "it has a control character"),
    ("undefined tag handle", "a tag (!) is not defined"),
    ("could not determine a constructor", "a tag (!) is not allowed"),
)


def explain(error: BaseException) -> str:
    """
    Return what an error means, with what to do about it: ``it is a directory; name a file``.

    An error that no table has keeps its text: our own errors are in plain words already.
    """
    what, cure = split(error)
    return f"{what}; {cure}" if cure else what


def split(error: BaseException) -> Meaning:
    """Return what an error means, and what to do about it."""
    kinds = _kinds(error)
    if "OpenSSL.SSL.Error" in kinds or "ssl.SSLError" in kinds:
        return _explain_tls(error)
    if "sqlite3.Error" in kinds:
        return _explain_sqlite(error)
    if "re2._re2.Error" in kinds:
        return explain_re2(error)
    if "jmespath.exceptions.JMESPathError" in kinds:
        return explain_jmespath(error)
    if "twisted.internet.error.CannotListenError" in kinds:
        return split(getattr(error, "socketError", error))
    if kinds & {"socket.gaierror", "twisted.internet.error.DNSLookupError"}:
        return _UNRESOLVED
    if "twisted.internet.error.ConnectError" in kinds:
        return _explain_connection(error, kinds)
    if "twisted.internet.defer.TimeoutError" in kinds:
        return _SYSTEM[errno.ETIMEDOUT]
    if kinds & {"twisted.internet.error.ConnectionClosed", "http.client.RemoteDisconnected"}:
        return _SYSTEM[errno.ECONNRESET]
    if isinstance(error, UnicodeDecodeError):
        return f"it is not {_charset(error.encoding)} (octet {error.start})", f"save it as {_charset(error.encoding)}"
    if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:
        return "it has half of a surrogate pair", "remove that character"
    if isinstance(error, UnicodeError):
        return "a name is empty, too long, or has characters that are not allowed", "correct the name"
    if isinstance(error, OSError):
        return _explain_system(error)
    if "json.decoder.JSONDecodeError" in kinds:
        return explain_json(error), ""
    if kinds & _ARCHIVES:
        return "it is not a whole archive of the expected kind", "fetch or make it again"
    if isinstance(error, (ValueError, TypeError, OverflowError)):
        text = str(error)
        return next((meaning for pattern, meaning in _TEXTS if pattern.search(text)), (text, ""))
    return str(error) or type(error).__name__, ""


def to_sentence(cure: str) -> str:
    """Return what to do as a sentence; empty for an empty text."""
    return f"{cure[:1].upper()}{cure[1:]}." if cure else ""


def explain_json(error: Any) -> str:
    """Return what a :class:`json.JSONDecodeError` means, and where: ``a value is expected (line 1, column 1)``."""
    return f"{explain_json_message(error.msg)} (line {error.lineno}, column {error.colno})"


def explain_json_message(message: str) -> str:
    """Return what a message of Python's JSON parser means."""
    return _JSON.get(message) or _JSON.get(message.partition(": ")[0], "its syntax is not JSON")


def explain_yaml(problem: str | None) -> str:
    """Return what the ``problem`` of a YAML error means."""
    return next((text for part, text in _YAML if part in (problem or "")), "its syntax is not YAML")


def original_of(error: BaseException | None) -> str:
    """
    Return the text of the foreign error that another one was made of, with its class; empty without one.

    :param error: it may be foreign itself; otherwise what it was raised from, or while it was handled, is searched.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(kept := getattr(error, "original", None), str) and kept:
            return kept
        plain = type(error) in (ValueError, TypeError, OverflowError)
        if _kinds(error) & _FOREIGN or (plain and _is_known(str(error))):
            kind = type(error)
            return f"{kind.__module__.removeprefix('builtins')}.{kind.__qualname__}: {error}".removeprefix(".")
        error = error.__cause__ or error.__context__
    return ""


def with_original(error: BaseException) -> str:
    """Return an error for the log: with its class, and with the foreign text that it was made of."""
    original = original_of(error)
    return f"{error!r}; original: {original}" if original and original != str(error) else repr(error)


_ARCHIVES: Final = frozenset({"zipfile.BadZipFile", "zlib.error", "tarfile.TarError", "builtins.EOFError"})

_FOREIGN: Final = _ARCHIVES | {
    "builtins.OSError",
    "builtins.UnicodeError",
    "OpenSSL.SSL.Error",
    "binascii.Error",
    "click.exceptions.UsageError",
    "jmespath.exceptions.JMESPathError",
    "json.decoder.JSONDecodeError",
    "psycopg.Error",
    "re2._re2.Error",
    "sqlite3.Error",
    "tomllib.TOMLDecodeError",
    "twisted.internet.error.ConnectError",
    "twisted.internet.error.CannotListenError",
    "twisted.internet.error.ConnectionClosed",
    "yaml.error.YAMLError",
}


def _is_known(text: str) -> bool:
    return any(pattern.search(text) for pattern, _ in _TEXTS)


def _kinds(error: BaseException) -> frozenset[str]:
    return frozenset(f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__)


def _charset(encoding: str) -> str:
    return "ASCII" if encoding == "ascii" else "UTF-8"


def _explain_system(error: OSError) -> Meaning:
    if error.errno is None:
        if "AF_UNIX path too long" in str(error):
            return "its path is too long for a socket", f"choose one of at most {LONGEST_SOCKET_PATH} octets"
        return _SYSTEM[errno.ETIMEDOUT] if isinstance(error, TimeoutError) else (str(error) or type(error).__name__, "")
    return _SYSTEM.get(error.errno) or (f"the system reports {errno.errorcode.get(error.errno, error.errno)}", "")


def _explain_connection(error: Any, kinds: frozenset[str]) -> Meaning:
    if "twisted.internet.error.TimeoutError" in kinds:
        return _SYSTEM[errno.ETIMEDOUT]
    code = getattr(error, "osError", None)
    code = code if isinstance(code, int) else getattr(code, "errno", None)
    if code is None and "twisted.internet.error.ConnectionRefusedError" in kinds:
        code = errno.ECONNREFUSED
    return _SYSTEM.get(code or 0) or ("no connection could be made", "check host and port, and that the server runs")


def _explain_tls(error: BaseException) -> Meaning:
    words = " ".join(_tls_words(error)).lower().replace("_", " ")
    return next((meaning for part, meaning in _TLS if part in words), _TLS_OTHER)


def _tls_words(error: BaseException) -> Iterator[str]:
    for name in ("verify_message", "reason"):
        yield str(getattr(error, name, "") or "")
    yield str(error)


def _explain_sqlite(error: BaseException) -> Meaning:
    if match := re.search(r"malformed database schema \((.*?)\)", str(error)):
        return f"its schema is damaged, at {match[1]}", ""
    name = getattr(error, "sqlite_errorname", "") or ""
    for known, meaning in _SQLITE.items():
        if name == known or name.startswith(f"{known}_"):
            return meaning
    return "SQLite cannot read it", ""
