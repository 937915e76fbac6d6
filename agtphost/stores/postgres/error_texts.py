"""What the errors of PostgreSQL and its client library mean for who set ``[store] url``, and what to do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_OWN_SCHEMA: Final = "give the store a separate schema in [store] url: ?options=-csearch_path%3DNAME"

_STATES: Final[Mapping[str, str]] = {
    "01000": "the server did not wait for its synchronous replica, which may lack the newest records; see its log",
    "28P01": "the password is wrong or missing; correct [store] password",
    "28000": "the server does not admit this user from here; correct the user in [store] url, or pg_hba.conf",
    "3D000": "the server has no such database; create it, or correct its name in [store] url",
    "3F000": "the database has no such schema, or the user no right on it; create it, grant the user CREATE and USAGE, "
    "or correct the search_path in [store] url",
    "42501": "the user has no right to do that; grant it CREATE and USAGE on the schema, and rights on its tables",
    "42P01": "a table of the store is missing; restore the database from a backup; `agtp store init` makes one for a "
    "host that never ran",
    "42703": "a table has the name of one of the store's, and other columns; restore it from a backup if it was "
    f"changed; if another program made it, {_OWN_SCHEMA}",
    "42P07": "a table or index has the name of one of the store's; restore the database from a backup if it is part of "
    f"a store; if another program made it, {_OWN_SCHEMA}",
    "25006": "it takes no writes; name the primary server in [store] url",
    "53100": "the server's disk is full; free some space there",
    "53200": "the server has no memory left; free some there",
    "53300": "it has no connection left; raise max_connections, or end other connections",
    "55P03": "another program has a lock on the store; end that program",
    "57014": "a statement took too long, or waited too long for another writer; see what holds the lock",
    "57P01": "the server was shut down; start it again",
    "57P03": "the server is starting up or shutting down; try again in a moment",
    "08P01": "what listens there does not speak PostgreSQL's protocol; correct host and port in [store] url",
    "22021": "a value has characters that the database's encoding lacks; create it with ENCODING 'UTF8'",
    "0A000": "the server does not support that; use PostgreSQL 14 or later",
    "XX001": "a page of the database is damaged; restore it from a backup",
    "XX002": "an index of the database is damaged; run REINDEX, or restore it from a backup",
}
"""By SQLSTATE."""

_TEXTS: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r'invalid URI query parameter: "(.*?)"', r"its option \1 is unknown; correct or remove it in [store] url"),
        (r'invalid connection option "(.*?)"', r"its option \1 is unknown; correct or remove it in [store] url"),
        (
            r'invalid integer value "(.*?)" for connection option "(.*?)"',
            r"\2 must be a whole number, not '\1'; correct [store] url",
        ),
        (r"bad value for (\w+): '(.*?)'", r"\1 must be a whole number, not '\2'; correct [store] url"),
        (r'invalid port number: "(.*?)"', r"the port must be a number from 1 to 65535, not '\1'; correct [store] url"),
        (r'invalid (\w+) value: "(.*?)"', r"\1 cannot be '\2'; correct it in [store] url"),
        (r"invalid percent-encoded token|forbidden value %00", r"it has a % without two digits; write %25 for it"),
        (
            r"[Ff]ailed to resolve host|could not translate host name",
            r"its host name has no address; correct [store] url, or DNS",
        ),
        (
            r"unsupported startup parameter: options",
            r"the pooler there refuses options; set ignore_startup_parameters = options in its configuration",
        ),
        (
            r"query_wait_timeout",
            r"the pooler there had no connection to the server in time; start the server, or raise the pooler's "
            "default_pool_size",
        ),
        (r"no more connections allowed", r"the pooler there has no connection left; raise its max_client_conn"),
        (
            r"bouncer config error|no such database",
            r"the pooler there has no such database; add it to the pooler's configuration, or correct [store] url",
        ),
        (r"Connection refused", r"nothing listens there; start the server, or correct host and port in [store] url"),
        (
            r'on socket "([^"]*)" failed: No such file',
            r"nothing listens on the socket \1; start the server, or correct host and port in [store] url",
        ),
        (r"fe_sendauth: no password supplied", r"it wants a password; give it in [store] password"),
        (r"password authentication failed", r"the password is wrong or missing; correct [store] password"),
        (r'role "(.*?)" does not exist', r"the server has no user \1; create it, or correct the user in [store] url"),
        (
            r'database "(.*?)" does not exist',
            r"the server has no database \1; create it, or correct its name in [store] url",
        ),
        (r"no pg_hba.conf entry", r"the server does not admit this user from here; add a line to its pg_hba.conf"),
        (r'role "(.*?)" is not permitted to log in', r"the user \1 has no right to log in; give it LOGIN"),
        (r"permission denied for (\w+ \S+)", r"the user has no right to use the \1; grant it"),
        (
            r"requires a valid client certificate",
            r"it wants a client certificate; name one in [store] url: sslcert=FILE and sslkey=FILE",
        ),
        (r'private key file "([^"]*)" has group or world access', r"other users can read \1; run: chmod 600 \1"),
        (
            r'too many connections for (role|database) "([^"]*)"',
            r"the \1 \2 has no connection left; raise its CONNECTION LIMIT",
        ),
        (
            r"too many (connections|clients)|remaining connection slots",
            r"it has no connection left; raise max_connections",
        ),
        (r"starting up|shutting down", r"the server is starting up or shutting down; try again in a moment"),
        (r"timeout expired|connection timeout|timed out", r"it does not answer in time; check host, port and network"),
        (r"does not support SSL", r"it has no TLS, which a database on another machine needs; set ssl = on there"),
        (
            r"does not match host name",
            r"its certificate is for another name; correct the host in [store] url, or the certificate",
        ),
        (r"unexpected eof while reading|EOF detected", r"the server closed the connection; its log says why"),
        (
            r"certificate verify failed|root certificate|SSL error",
            r"its certificate has expired or is not trusted; renew it, or name its authority in [store] url: "
            r"sslrootcert=FILE",
        ),
        (r"Network is unreachable|No route to host", r"no network leads there; correct the host in [store] url"),
        (
            r"received invalid response|expected authentication request",
            r"what listens there is not PostgreSQL; correct host and port",
        ),
        (r"target_session_attrs|session is read-only", r"none of its hosts takes writes; name the primary server"),
        (
            r"server closed the connection|connection.*(lost|closed)",
            r"the server closed the connection; its log says why",
        ),
    )
)
"""By the text, where there was no SQLSTATE: connections that failed."""


_FAILED: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(pattern), state)
    for pattern, state in (
        (r"too many (connections|clients)|remaining connection slots", "53300"),
        (r"password authentication failed", "28P01"),
        (r"no pg_hba.conf entry|role \".*?\" (does not exist|is not permitted)", "28000"),
        (r'database ".*?" does not exist', "3D000"),
        (r"starting up|shutting down|in recovery mode", "57P03"),
    )
)
"""SQLSTATEs of connections that the server refused: its library keeps the text alone."""


def find_state(text: str) -> str:
    """Return the SQLSTATE of a connection that failed; empty where the server did not say why."""
    return next((state for pattern, state in _FAILED if pattern.search(text)), "")


def explain_error(text: str, sqlstate: str = "") -> str:
    """
    Return what an error means, and what to do; the text of an error that no setting causes as it is.

    :param text: of psycopg or the server, in one line.
    :param sqlstate: five characters; empty where the connection failed.
    """
    for pattern, meaning in _TEXTS:
        if match := pattern.search(text):
            return match.expand(meaning)
    if sqlstate:
        return _STATES.get(sqlstate, text)
    return "no connection could be made; check [store] url and the server's log"
