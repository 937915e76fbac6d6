"""Every way a configuration can be wrong is reported with its file, its line and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from agtphost.config import load
from agtphost.errors import ConfigurationError, Problem
from tests.rows import each_row

HEAD = '[host]\nserver_id = "h"\nprofile = "development"\n'
"""Three good lines: what is under test starts on line 4."""

OAUTH = "[[policies.oauth.issuer]]\nexpected_issuer = 'https://i'\n"
SERVER = '[[mcp.server]]\nname = "files"\ncommand = ["{python}", "server.py"]\n'
"""Three more: what follows a good server starts on line 7."""

FINGERPRINT = "0" * 64
ENVIRON = {"EMPTY": "", "PATH": "/usr/bin", "HOME": "/root", "TOKEN": "x" * 32, "OTHER": "y" * 32}

HTTP = f"[a2a.front]\nagent_id = '{FINGERPRINT}'\nagent = [{{ name = 'x' }}]\n"
WELL = "[wellknown]\nlisten = 'ssl:8443:interface=127.0.0.1'\ndomain = 'a.example.com'\n"

CASES: list[tuple[str, str, int, str, str]] = [
    # id, text after HEAD, line of the problem, message, hint
    ("unknown section", "[lissen]\n", 4, "[lissen] is unknown", 'did you mean "listen"?'),
    (
        "a required key that is not there",
        '[[methods.price]]\nexpected = "tokens=5"\n',
        4,
        "[[methods.price]] number 1 call is missing",
        'write call = "files.*"',
    ),
    (
        "far-off section",
        "[zzzzzz]\n",
        4,
        "[zzzzzz] is unknown",
        "known here: a2a, acp, adapter, admin, agis, api, approvals, attestation, audit",
    ),
    (
        "approval of a tool",
        '[[mcp.server]]\nname = "a"\ncommand = ["{python}"]\n[mcp.server.tools.x]\napproval = "always"\n',
        8,
        "approval must be",
        "",
    ),
    ("approver", '[approvals]\nby = ["Operators"]\n', 5, '"operators" nor a scope', ""),
    ("no approver", "[approvals]\nby = []\n", 5, "[approvals] by", ""),
    ("approval for days", "[approvals]\nttl = 100000\n", 5, "[approvals] ttl must be at most 86400", ""),
    ("unknown host key", "servr_id = 1\n", 4, "[host] servr_id is unknown", 'did you mean "server_id"?'),
    ("unknown listen key", "[listen]\nprot = 1\n", 5, "[listen] prot is unknown", 'did you mean "port"?'),
    ("unknown tls key", "[tls]\ncertficate = 'x'\n", 5, "[tls] certficate is unknown", '"certificate"'),
    ("unknown wire key", "[wire]\nstrict = true\n", 5, "[wire] strict is unknown", "strict_request_line"),
    ("unknown limit", "[limits]\nboddy = 1\n", 5, "[limits] boddy is unknown", 'did you mean "body"?'),
    ("unknown store key", "[store]\nuri = 'x'\n", 5, "[store] uri is unknown", 'did you mean "url"?'),
    ("unknown audit key", "[audit]\nsign = true\n", 5, "[audit] sign is unknown", 'did you mean "signing"?'),
    (
        "unknown policy",
        "[policies]\nwildcards = true\n",
        5,
        "[policies] wildcards is unknown",
        "wildcards_acc",
    ),
    (
        "unknown method policy",
        "[policies.methods]\ndisalow = []\n",
        5,
        "[policies.methods] disalow is unknown",
        'did you mean "disallow"?',
    ),
    ("unknown mcp key", "[mcp]\nservers = []\n", 5, "[mcp] servers is unknown", 'did you mean "server"?'),
    (
        "unknown mcp server key",
        SERVER + "timout = 3\n",
        7,
        '[[mcp.server]] "files" timout is unknown',
        'did you mean "timeout"?',
    ),
    (
        "unknown tool key",
        SERVER + "[mcp.server.tools.read]\nscope = []\n",
        8,
        '[mcp.server.tools.read] "files" scope is unknown',
        'did you mean "scopes"?',
    ),
    ("a2a: no url", "[[a2a.agent]]\nname = 'helper'\n", 4, '[[a2a.agent]] "helper" url is missing', ""),
    ("a2a: plain http", "[[a2a.agent]]\nname = 'h'\nurl = 'http://a.example.com'\n", 6, "must be https", ""),
    (
        "a2a: nobody's name",
        "[a2a.front]\nlisten = 'tcp:0:interface=127.0.0.1'\n[[a2a.front.agent]]\nname = 'x'\n",
        4,
        "agent_id is missing",
        "",
    ),
    (
        "a2a: open to all",
        f"[a2a.front]\nlisten = 'ssl:8443'\nagent_id = '{'a' * 64}'\n[[a2a.front.agent]]\nname = 'x'\n",
        4,
        "tokens are missing",
        "add one for each client",
    ),
    (
        "a2a: a template",
        f"[a2a.front]\nlisten = 'tcp:0:interface=127.0.0.1'\nagent_id = '{'a' * 64}'\n"
        "[[a2a.front.agent]]\nname = 'x'\npath = '/library/{isbn}'\n",
        9,
        "path is a template",
        "have text fill its input",
    ),
    ("http: plain", HTTP + "listen = 'tcp:8080'\n", 7, "[a2a.front] listen must be ssl", "behind_proxy"),
    (
        "http: a proxy of no name",
        HTTP + "tokens = ['env:HOME']\nbehind_proxy = true\nlisten = 'tcp:8080'\n",
        4,
        "[a2a.front] hosts is missing",
        "such as hosts",
    ),
    (
        "http: a proxy on this machine lets anybody in",
        HTTP + "behind_proxy = true\nlisten = 'tcp:8080:interface=127.0.0.1'\n",
        4,
        "tokens are missing",
        "",
    ),
    ("http: no kind", HTTP + "listen = 'onion:8080'\n", 7, "a kind that cannot serve HTTP: 'onion'", ""),
    (
        "http: the port of AGTP",
        HTTP + "listen = 'tcp:4480:interface=127.0.0.1'\n",
        7,
        "[a2a.front] listen is the port of AGTP itself, 4480",
        "another port",
    ),
    (
        "http: the port of AGTP, told by an endpoint",
        "[listen]\nendpoint = 'tcp:port=4999'\n" + HTTP + "listen = 'tcp:4999:interface=127.0.0.1'\n",
        9,
        "which can serve nothing else (line 4)",
        "another port",
    ),
    (
        "http: one port, with TLS and without",
        WELL + HTTP + "listen = 'tcp:8443:interface=127.0.0.1'\n",
        10,
        "is the address of [wellknown], which is ssl there (line 4)",
        "",
    ),
    (
        "http: a client of nothing",
        "[[http.client]]\nname = 'a'\nagent = 'x'\n",
        4,
        '[[http.client]] "a" token is missing',
        "",
    ),
    (
        "http: a token that is short",
        "[[http.client]]\nname = 'a'\nagent = 'x'\ntoken = 'env:HOME'\n",
        7,
        '"a" token has fewer than 32 characters',
        "",
    ),
    (
        "http: a token in the file",
        "[[http.client]]\nname = 'a'\nagent = 'x'\ntoken = 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'\n",
        7,
        '"a" token is a secret written into the file',
        "",
    ),
    (
        "http: a client's name",
        "[[http.client]]\nname = 'A b'\nagent = 'x'\ntoken = 'env:TOKEN'\n",
        5,
        "name must be 1 to 64 of a-z",
        "",
    ),
    (
        "http: two clients of one token",
        "[[http.client]]\nname = 'a'\nagent = 'x'\ntoken = 'env:TOKEN'\n"
        "[[http.client]]\nname = 'b'\nagent = 'y'\ntoken = 'env:TOKEN'\n",
        11,
        '"b" token is the same as that of "a"',
        "another one",
    ),
    (
        "http: two clients of one name",
        "[[http.client]]\nname = 'a'\nagent = 'x'\ntoken = 'env:TOKEN'\n"
        "[[http.client]]\nname = 'a'\nagent = 'y'\ntoken = 'env:OTHER'\n",
        9,
        '"a" name is listed twice (line 5)',
        "",
    ),
    ("http: no host name", WELL + "hosts = ['https://a']\n", 7, "hosts[1] must be a name", ""),
    ("http: no port", WELL + "origins = ['https://a:99999']\n", 7, "origins[1] must be an origin", ""),
    ("http: no origin", WELL + "origins = ['https://a/b']\n", 7, "origins[1] must be an origin", ""),
    ("acp: no name", "[[acp.agent]]\nurl = 'https://a.example.com'\n", 4, "name is missing", ""),
    ("admin: plain", "[admin]\nlisten = 'tcp:4481:interface=127.0.0.1'\n", 4, "url is missing", "https://ops"),
    ("admin: anywhere", "[admin]\nlisten = 'ssl:4481'\n", 4, "url is missing", "https://ops.example.com"),
    ("admin: a path", "[admin]\nurl = 'https://ops.example.com/admin'\n", 5, "an https URL without a path", ""),
    ("admin: half", "[admin]\nlisten = 'ssl:1:interface=127.0.0.1'\nkey = 'no.key'\n", 4, "needs both", ""),
    (
        "admin: nobody's browsers",
        f"[admin]\nbrowsers = ['{'a' * 64}']\n",
        5,
        "must map each certificate to an operator",
        "",
    ),
    ("admin: a browser of nobody", f"[admin.browsers]\n{'a' * 64} = '{'b' * 64}'\n", 5, "stands for bbbb", "name one"),
    ("admin: no digest", f"[admin.browsers]\nops = '{'b' * 64}'\n", 5, "not the SHA-256 of a certificate", ""),
    (
        "admin: browsers behind a proxy",
        f"[admin]\nlisten = 'tcp:1:interface=127.0.0.1'\nurl = 'https://a.example'\nviewers = ['{'b' * 64}']\n"
        f"[admin.browsers]\n{'a' * 64} = '{'b' * 64}'\n",
        8,
        "needs TLS on this host",
        "ssl:4481",
    ),
    ("admin: no listener", "[admin]\nlisten = 'udp:1'\n", 5, "has a kind that cannot serve HTTP", ""),
    ("gateway: who calls", "[gateway]\nforward = ['Agent-ID']\n", 5, "[gateway] forward[1] holds agent-id", ""),
    ("gateway: a token", "[gateway]\nforward = ['authorization']\n", 5, "passed on anyway", ""),
    ("gateway: how", "[gateway]\nforward = ['X-Any']\n", 5, "[gateway] forward[1] holds x-any", ""),
    ("gateway: HTTP's own", "[gateway]\nforward = ['host']\n", 5, "[gateway] forward[1] holds host", ""),
    ("gateway: no field", "[gateway]\nforward = ['a b']\n", 5, "not the name of a header field", ""),
    ("gateway: one field twice", "[gateway]\nforward = ['prefer', 'Prefer']\n", 5, "is listed twice", ""),
    ("gateway: plain", "[gateway]\nlisten = 'tcp:8080'\n", 5, "[gateway] listen must be ssl", "behind_proxy"),
    ("gateway: AGTP's own port", "[gateway]\nlisten = 'ssl:4480'\n", 5, "is the port of AGTP itself", "another port"),
    ("gateway: half a certificate", "[gateway]\nkey = 'tls.key'\n", 4, "needs both certificate and key", ""),
    (
        "registry: no origin",
        "[[registry.provider]]\n",
        4,
        "[[registry.provider]] number 1 has no keys",
        "remove this line",
    ),
    ("registry: a path", "[[registry.provider]]\norigin = 'https://a.example/x'\n", 5, "must be an origin", ""),
    ("registry: plain", "[[registry.provider]]\norigin = 'http://a.example'\n", 5, "is plain http", ""),
    (
        "registry: one origin twice",
        "[[registry.provider]]\norigin = 'https://a.example'\n[[registry.provider]]\norigin = 'https://A.example:443'\n",
        7,
        "is repeated",
        "",
    ),
    (
        "registry: a field of the client's own",
        "[[registry.provider]]\norigin = 'https://a.example'\nheaders = { Host = 'b' }\n",
        6,
        "not a field that can be set here",
        "",
    ),
    (
        "registry: a host is probed",
        "[[registry.provider]]\norigin = 'agtp://a.example'\nprobe_seconds = 60\n",
        6,
        "can only be used with https",
        "[delegation]",
    ),
    (
        "metrics: plain, and open to others",
        "[metrics]\nlisten = 'tcp:9480'\n",
        5,
        "[metrics] listen must be ssl",
        "behind_proxy",
    ),
    (
        "metrics: where AGTP is",
        "[metrics]\nlisten = 'ssl:4480'\n[listen]\nport = 4480\n",
        5,
        "[metrics] listen is the port of AGTP itself",
        "choose another port",
    ),
    ("recipes: no file", "[recipes]\nfile = 'none.toml'\n", 5, "[recipes] file names a file that does not exist", ""),
    ("later: workers", "workers = 4\n", 4, "[host] workers is not supported by this version", "remove it"),
    (
        "one choice alone",
        "[[mcp.server]]\nname = 'a'\ncommand = ['python3']\n[mcp.server.tools.x]\napproval = true\n",
        8,
        "approval must be required, not true",
        'write approval = "required"',
    ),
    ("envelope", "[audit]\nenvelope = 'xml'\n", 5, "[audit] envelope must be one of jws, cose", ""),
    (
        "oauth: nobody issues",
        "[policies.oauth]\nrequired_on_methods = ['BOOK']\n",
        5,
        "but no issuer is trusted",
        "add [[policies.oauth.issuer]]",
    ),
    ("oauth: no keys", OAUTH, 4, "needs exactly one of", ""),
    (
        "oauth: two sources",
        OAUTH + "jwks_uri = 'https://i/k'\ndiscovery_url = 'https://i/d'\n",
        4,
        "needs exactly one of",
        "",
    ),
    ("oauth: symmetric", OAUTH + "jwks_uri = 'https://i/k'\nallowed_algs = ['HS256']\n", 7, "'HS256'", ""),
    ("oauth: plain http", OAUTH + "jwks_uri = 'http://i.example.com/k'\n", 6, "must be https", ""),
    ("oauth: no issuer", "[[policies.oauth.issuer]]\njwks_uri = 'https://i/k'\n", 4, "expected_issuer", ""),
    ("oauth: no file", OAUTH + "jwks = 'nowhere.json'\n", 6, "cannot be used", ""),
    ("rcns: mode", "[policies.rcns]\nmode = 'sometimes'\n", 5, "[policies.rcns] mode must be", ""),
    ("rcns: unknown", "[policies.rcns]\nspeed = 4\n", 5, "[policies.rcns] speed", ""),
    ("isolation", SERVER + 'isolation = "per-process"\n', 7, 'must be "auto", "shared", "per-agent" or', ""),
    (
        "password in a database's url",
        "[store]\nurl = 'postgresql://agtp:hunter2@db/agtp'\n",
        5,
        "[store] url has a password in it",
        "",
    ),
    (
        "password among a database's options",
        "[store]\nurl = 'postgresql://agtp@db/agtp?password=hunter2'\n",
        5,
        'password = "file:PATH"',
        "",
    ),
    (
        "password of a database in the file",
        "[store]\nurl = 'postgresql://agtp@db/agtp'\npassword = 'hunter2'\n",
        6,
        "[store] password is a secret written into the file",
        "",
    ),
    ("database that is no URL", "[store]\nurl = 'postgresql://[::1/agtp'\n", 5, "[store] url is not a URL", ""),
    (
        "password without a database",
        "[store]\npassword = 'file:host.toml'\n",
        5,
        "is for PostgreSQL, and url names a SQLite file",
        "remove it",
    ),
    (
        "floor of a database's disk",
        "[store]\nurl = 'postgresql://agtp@db/agtp'\nfree_space_floor = 5\n",
        6,
        "[store] free_space_floor has no effect with PostgreSQL",
        "remove it",
    ),
    (
        "section that is a value",
        "[wire]\n[listen]\n[mcp]\nserver = 5\n",
        7,
        "[mcp] server must be a list",
        "",
    ),
    ("server that is a value", "[mcp]\nserver = [5]\n", 5, "[mcp] server[1] must be a table", ""),
    ("port too high", "[listen]\nport = 65536\n", 5, "[listen] port must be at most 65535, not 65536", ""),
    ("port negative", "[listen]\nport = -1\n", 5, "[listen] port must be at least 0, not -1", ""),
    ("port as text", '[listen]\nport = "4480"\n', 5, "[listen] port must be a whole number", ""),
    ("port as boolean", "[listen]\nport = true\n", 5, "[listen] port must be a whole number", ""),
    ("port as fraction", "[listen]\nport = 4480.5\n", 5, "[listen] port must be a whole number", ""),
    ("address as a name", '[listen]\naddress = "localhost"\n', 5, "[listen] address must be an IP", ""),
    ("address as nonsense", '[listen]\naddress = "1.2.3"\n', 5, "not '1.2.3'", ""),
    (
        "endpoint and port",
        '[listen]\nport = 1\nendpoint = "tcp:1"\n',
        5,
        "[listen] port cannot be combined with endpoint",
        "remove this line",
    ),
    (
        "endpoint and QUIC",
        '[listen]\nendpoint = "tcp:1"\n[quic]\nenabled = true\n',
        5,
        "[listen] endpoint cannot be combined with [quic] enabled: QUIC listens at address and port",
        "write address and port",
    ),
    (
        "address with a zone and QUIC",
        '[listen]\naddress = "fe80::1%eth0"\n[quic]\nenabled = true\n',
        5,
        "[listen] address cannot have a zone where [quic] is enabled, as 'fe80::1%eth0' has",
        "name an address without one",
    ),
    ("endpoint with TLS", '[listen]\nendpoint = "ssl:1"\n', 5, "must be a plain endpoint", ""),
    ("empty endpoint", '[listen]\nendpoint = ""\n', 5, "must be a plain endpoint", ""),
    (
        "client_auth misspelled",
        '[tls]\nclient_auth = "optionnal"\n',
        5,
        "must be one of optional, required, none, not 'optionnal'",
        'did you mean "optional"?',
    ),
    (
        "client_auth as boolean",
        "[tls]\nclient_auth = true\n",
        5,
        "must be one of optional, required, none",
        "",
    ),
    (
        "named key file missing",
        '[tls]\nkey = "no.key"\n',
        5,
        "[tls] key names a file that does not exist",
        "init",
    ),
    (
        "named CA missing",
        '[tls]\nclient_ca = "no.pem"\n',
        5,
        "[tls] client_ca names a file that",
        "agtp init",
    ),
    ("path with NUL", '[tls]\nkey = "a\\u0000b"\n', 5, "[tls] key must be a path", ""),
    ("path as number", "[tls]\ncertificate = 5\n", 5, "[tls] certificate must be text", ""),
    ("timeout of zero", "[limits]\nidle_timeout = 0\n", 5, "idle_timeout must be more than 0, not 0", ""),
    ("timeout of a week", "[limits]\nidle_timeout = 604800\n", 5, "must be at most 86400", ""),
    ("timeout not finite", "[limits]\nidle_timeout = inf\n", 5, "must be a finite number", ""),
    ("timeout as text", '[limits]\nidle_timeout = "75s"\n', 5, "[limits] idle_timeout must be a number", ""),
    ("limit negative", "[limits]\nbody = -1\n", 5, "[limits] body must be at least 0, not -1", ""),
    (
        "header line over block",
        "[limits]\nheader_block = 100\n",
        5,
        "header_block cannot be less than header_line",
        "",
    ),
    (
        "per address over all",
        "[limits]\nconnections = 3\nconnections_per_address = 4\n",
        6,
        "connections_per_address cannot be more than connections (3)",
        "",
    ),
    (
        "range with host bits",
        '[limits]\nexempt_addresses = [\n  "::1/128",\n  "127.0.0.1/8",\n]\n',
        7,
        "exempt_addresses[2] is not an address range",
        "",
    ),
    ("store of unknown kind", "[store]\nurl = 'mysql:x'\n", 5, "must be sqlite:, sqlite:PATH or postgresql://", ""),
    ("store without scheme", "[store]\nurl = 'x.db'\n", 5, "must be sqlite:, sqlite:PATH or postgresql://", ""),
    ("floor as text", "[store]\nfree_space_floor = '1G'\n", 5, "must be a whole number", ""),
    (
        "acl misspelled",
        "[audit]\nread_acl = 'agent-only'\n",
        5,
        "must be one of public, agent_only",
        "agent_only",
    ),
    ("person without a key", "[notify.people]\nusr-cfo = ''\n", 5, "usr-cfo must be a key fingerprint", ""),
    ("person named operator", f"[notify.people]\noperator = '{'a' * 64}'\n", 5, "the operator's own inbox", "another"),
    ("group named operator", "[notify.groups]\noperator = ['a']\n", 5, "the operator's own inbox", "another"),
    ("person that no call can name", f"[notify.people]\n{'a' * 200} = '{'a' * 64}'\n", 5, "cannot be named", "shorter"),
    (
        "person named as an agent",
        f"[notify.people]\n{'a' * 64} = '{'a' * 64}'\n",
        5,
        "looks like an Agent-ID",
        "usr-cfo",
    ),
    (
        "person and group of one name",
        f"[notify.people]\nboard = '{'a' * 64}'\n[notify.groups]\nboard = ['operator']\n",
        7,
        "is also a person of [notify.people]",
        "another",
    ),
    ("group without members", "[notify.groups]\nboard = []\n", 5, "has no member", 'board = ["operator"]'),
    (
        "operators missing",
        '[audit]\nread_acl = "operator_only"\n',
        5,
        "needs at least one operator",
        "agtp cert show",
    ),
    (
        "operator not a fingerprint",
        '[audit]\noperators = ["x"]\n',
        5,
        "operators[1] must be a key finger",
        "",
    ),
    ("auth misspelled", "[lifecycle]\nauth = 'opne'\n", 5, "must be one of genesis_issuer, open", '"open"'),
    (
        "open to the world",
        "[listen]\naddress = '0.0.0.0'\n[lifecycle]\nauth = 'open'\n",
        7,
        '[lifecycle] auth "open" needs a loopback address',
        "genesis_issuer",
    ),
    (
        "open on an endpoint",
        "[listen]\nendpoint = 'tcp:4480'\n[lifecycle]\nauth = 'open'\n",
        7,
        '[lifecycle] auth "open" needs a loopback address',
        "",
    ),
    ("agents missing", "[identity]\nagents = 'none'\n", 5, "[identity] agents names a directory that", ""),
    (
        "known agents missing",
        "[identity]\nknown_agents = 'x'\n",
        5,
        "known_agents names a directory that",
        "",
    ),
    ("issuers as text", "[identity]\ntrusted_issuers = 'x'\n", 5, "trusted_issuers must be a list", ""),
    (
        "issuer that is no key",
        "[identity]\ntrusted_issuers = [\n  'x',\n]\n",
        6,
        "trusted_issuers[1] is not an Ed25519 public key",
        "file:PATH",
    ),
    (
        "issuer file missing",
        "[identity]\ntrusted_issuers = ['file:x.pub']\n",
        5,
        "trusted_issuers[1] names a file that cannot be read",
        "",
    ),
    ("catalog missing", "[catalog]\npath = 'x.json'\n", 5, "[catalog] path names a file that does not", ""),
    ("endpoints missing", "[endpoints]\ndirectory = 'x'\n", 5, "directory names a directory that does", ""),
    ("on_error misspelled", "[endpoints]\non_error = 'ignore'\n", 5, "must be one of refuse, skip", ""),
    (
        "python_path missing",
        "[endpoints]\npython_path = ['.', 'x']\n",
        5,
        "python_path[2] names a directory",
        "",
    ),
    (
        "disclosure misspelled",
        "[policies]\nagent_disclosure = 'pubic'\n",
        5,
        "must be one of public",
        "public",
    ),
    ("toggle as text", "[policies]\nanonymous_discovery = 'yes'\n", 5, "must be true or false", ""),
    ("depth of zero", "[policies]\nmax_synthesis_depth = 0\n", 5, "must be at least 1, not 0", ""),
    (
        "legacy of another verb",
        "[policies.methods]\nlegacy = ['GETT']\n",
        5,
        "holds 'GETT', which is not one",
        "",
    ),
    (
        "legacy as a word",
        "[policies.methods]\nlegacy = 'ALL'\n",
        5,
        'must be "NONE", "*" or a list of GET',
        "",
    ),
    ("allow as a word", "[policies.methods]\nallow = 'all'\n", 5, 'must be "*" or a list of method', ""),
    (
        "allow with a bad name",
        "[policies.methods]\nallow = ['DO_IT']\n",
        5,
        "holds 'DO_IT', which is not a",
        "",
    ),
    (
        "disallow with a bad name",
        "[policies.methods]\ndisallow = ['AB']\n",
        5,
        "holds 'AB', which is not a",
        "",
    ),
    (
        "aliases that chain",
        "[policies.methods.aliases]\nTAKE = 'GRAB'\nGRAB = 'FETCH'\n",
        5,
        "TAKE leads to GRAB, which is itself an alias",
        "name the final method",
    ),
    (
        "alias of a floor method",
        "[policies.methods.aliases]\nQUERY = 'FETCH'\n",
        5,
        "QUERY is a method that ev",
        "",
    ),
    ("alias to a bad name", "[policies.methods.aliases]\nTAKE = 'fetch'\n", 5, "holds 'fetch', which is", ""),
    ("redirect without target", "[[policies.methods.redirects]]\nfrom_method='BOOK'\n", 4, "is missing", ""),
    (
        "redirect to itself",
        "[[policies.methods.redirects]]\nfrom_method = 'BOOK'\nto_method = 'BOOK'\n",
        4,
        "leads to itself",
        "",
    ),
    (
        "redirect with a bad path",
        "[[policies.methods.redirects]]\nfrom_method = 'BOOK'\nto_method = 'BUY'\nto_path = 'room'\n",
        7,
        'to_path must be a path that begins with "/"',
        "",
    ),
    ("server without a name", "[[mcp.server]]\nurl = 'https://x/'\n", 4, "number 1 name is missing", ""),
    (
        "server with a bad name",
        "[[mcp.server]]\nname = 'My Files'\nurl = 'https://x/'\n",
        5,
        "name must be 1 to 32",
        "",
    ),
    ("server twice", SERVER + SERVER, 8, "name is already used by entry 1", ""),
    ("server without transport", "[[mcp.server]]\nname = 'a'\n", 4, '"a" needs a command or a url', "npx"),
    (
        "server with both",
        SERVER + "url = 'https://x/'\n",
        7,
        "url cannot be combined with command",
        "remove this line, or command",
    ),
    (
        "command as text",
        "[[mcp.server]]\nname = 'a'\ncommand = 'npx x'\n",
        6,
        "must be a list of arguments",
        "",
    ),
    ("command empty", "[[mcp.server]]\nname = 'a'\ncommand = []\n", 6, "command must not be empty", ""),
    (
        "command not found",
        "[[mcp.server]]\nname = 'a'\ncommand = ['no-such-program-4480']\n",
        6,
        "command names a program that cannot be run",
        "{python}",
    ),
    ("cwd missing", SERVER + "cwd = 'none'\n", 7, "cwd names a directory that does not exist", ""),
    (
        "env with a bad name",
        SERVER + "env = { 'A-B' = '1' }\n",
        7,
        "A-B is not the name of an environment",
        "",
    ),
    (
        "env not set",
        SERVER + "[mcp.server.env]\nA = '${UNSET_4480}'\n",
        8,
        "A names the environment variable",
        "",
    ),
    ("env empty", SERVER + "env = { A = 'env:EMPTY' }\n", 7, "variable EMPTY, which is empty", ""),
    ("env file missing", SERVER + "env = { A = 'file:none' }\n", 7, "which cannot be read", ""),
    (
        "env beside a url",
        "[[mcp.server]]\nname='a'\nurl='https://x/'\nenv = {}\n",
        7,
        '[mcp.server.env] "a" can only be used with',
        "",
    ),
    (
        "bearer inline",
        "[[mcp.server]]\nname = 'a'\nurl = 'https://x/'\nbearer = 'hunter2'\n",
        7,
        "bearer is a secret written into the file",
        "",
    ),
    ("bearer beside a command", SERVER + "bearer = 'env:HOME'\n", 7, "bearer can only be used with url", ""),
    ("traces without a collector", "[traces]\nsample = 0.5\n", 4, "endpoint is missing", "127.0.0.1:4318"),
    ("traces in the clear", "[traces]\nendpoint = 'http://c.example'\n", 5, "must be https", ""),
    ("a share beyond all", "[traces]\nendpoint = 'https://c.example'\nsample = 2\n", 6, "must be at most 1", ""),
    ("a password in the URL", "[traces]\nendpoint = 'https://u:p@c.example'\n", 5, "user name or password", ""),
    ("a field of HTTP's own", "[traces]\nendpoint = 'https://c.example'\nheaders = {Host='x'}\n", 6, "header", ""),
    ("a key without a variable", "[traces]\nendpoint = 'https://c.example'\nheaders = {a='env:NO'}\n", 6, "NO", ""),
    ("url without a port", "[[mcp.server]]\nname = 'a'\nurl = 'http://127.0.0.1:'\n", 6, "an http or https URL", ""),
    ("url without TLS", "[[mcp.server]]\nname = 'a'\nurl = 'http://x.example/'\n", 6, "must be https", ""),
    (
        "url of a file",
        "[[mcp.server]]\nname = 'a'\nurl = 'file:///x'\n",
        6,
        "must be an http or https URL",
        "",
    ),
    (
        "url with a password",
        "[[mcp.server]]\nname = 'a'\nurl = 'https://u:p@x/'\n",
        6,
        "must not contain a us",
        "",
    ),
    (
        "url with a variable",
        "[[mcp.server]]\nname = 'a'\nurl = 'https://${X}/'\n",
        6,
        "must be an http or ht",
        "",
    ),
    (
        "own header",
        "[[mcp.server]]\nname='a'\nurl='https://x/'\nheaders = { Host = 'y' }\n",
        7,
        "Host is not a",
        "",
    ),
    (
        "header value of two lines",
        "[[mcp.server]]\nname='a'\nurl='https://x/'\nheaders = { X = \"a\\r\\nY: b\" }\n",
        7,
        "contains characters that a header field cannot carry",
        "",
    ),
    ("root that is no file", SERVER + "roots = ['/srv']\n", 7, "holds '/srv', which is not a file:// URI", ""),
    (
        "credentials of a command",
        SERVER + "oauth = { token_url = 'https://x/', client_id = 'a', client_secret = '${HOME}' }\n",
        7,
        "can only be used with url",
        "",
    ),
    (
        "scope malformed",
        SERVER + "scopes = ['Read']\n",
        7,
        "scopes[1] holds 'Read', which is not a scope",
        "",
    ),
    (
        "start misspelled",
        SERVER + "start = 'lasy'\n",
        7,
        "must be one of eager, lazy",
        'did you mean "lazy"?',
    ),
    (
        "protocol unknown",
        SERVER + "protocol = '2025-11-26'\n",
        7,
        "protocol must be one of auto",
        "2025-11-25",
    ),
    ("concurrency of zero", SERVER + "max_concurrency = 0\n", 7, "must be at least 1, not 0", ""),
    (
        "impact misspelled",
        SERVER + "[mcp.server.tools.read]\nimpact = 'reversable'\n",
        8,
        '[mcp.server.tools.read] "files" impact must be one of',
        'did you mean "reversible"?',
    ),
    (
        "assurance misspelled",
        SERVER + "[mcp.server.tools.read]\nmin_assurance = 'cert'\n",
        8,
        "min_assurance must be one of none, header, gateway, certificate",
        "",
    ),
    ("not TOML", "[listen\n", 4, "not TOML: the header of a table is not closed", ""),
    ("key twice", 'profile = "production"\n', 4, "not TOML: the key has a value already", ""),
    ("text without end", "\n\noperator = 'x\n", 6, "not TOML", ""),
]


def problems_of(path: Path, environ: dict[str, str] | None = None) -> tuple[Problem, ...]:
    """What loading ``path`` reports."""
    with pytest.raises(ConfigurationError) as caught:
        load(path, ENVIRON if environ is None else environ)
    return caught.value.problems


def write(folder: Path, text: str) -> Path:
    path = folder / "host.toml"
    path.write_text(text)
    return path


@each_row(("text", "line", "message", "hint"), [case[1:] for case in CASES], [case[0] for case in CASES])
def test_a_wrong_configuration_is_reported_where_it_is_wrong(
    tmp_path: Path, text: str, line: int, message: str, hint: str
) -> None:
    """The first problem of each case names the key, the file, the line and the remedy."""
    path = write(tmp_path, HEAD + text)
    problem = problems_of(path)[0]
    assert message in problem.message
    assert (problem.file, problem.line) == (str(path), line)
    assert hint in problem.hint


@each_row("text", [case[1] for case in CASES], [case[0] for case in CASES])
def test_one_mistake_is_one_problem(tmp_path: Path, text: str) -> None:
    """No mistake drags conclusions behind it that vanish once it is corrected."""
    assert len(problems_of(write(tmp_path, HEAD + text))) == 1


@each_row("line", ['proflex = "development"', 'profile = ""', 'profile = ["x"]', 'profile = "developmet"'])
def test_a_faulty_profile_is_one_problem_with_an_operator(tmp_path: Path, line: str) -> None:
    """The registrar's certificate isn't missed as long as it is unknown whether the first start makes it."""
    operator = '[[operator]]\nname = "admin"\nkey = "state/registrar.pem"\nrole = "administrator"\n'
    text = HEAD.replace('profile = "development"', line) + operator
    [problem] = problems_of(write(tmp_path, text))
    assert problem.line == 3 and "prof" in problem.message


def test_all_problems_come_at_once_in_file_order(tmp_path: Path) -> None:
    """Mistakes of every kind, in every section, are one report."""
    text = HEAD.replace('"h"', '"two words"') + (
        "[listen]\nport = 70000\n[tls]\nkey = 'none'\n[limits]\nheader_line = 9000\nheader_block = 100\n"
        "[[mcp.server]]\nname = 'a'\ntimeout = 'x'\nscopes = [\n  'b',\n  'c',\n]\n"
        "[mcp.server.env]\nA = '${NO}'\n[lissen]\n"
    )
    problems = problems_of(write(tmp_path, text))
    assert [problem.line for problem in problems] == [2, 5, 7, 9, 11, 13, 15, 16, 19, 20]


def test_a_conclusion_from_a_faulty_key_is_not_drawn(tmp_path: Path) -> None:
    """A server whose command is malformed is not told besides that it has none."""
    text = HEAD + "[[mcp.server]]\nname = 'a'\ncommand = 5\n"
    messages = [problem.message for problem in problems_of(write(tmp_path, text))]
    assert messages == ['[[mcp.server]] "a" command must be a list of text arguments, not 5']


def test_faults_inside_each_other(tmp_path: Path) -> None:
    """A list that is taken out whole does not hide what else is wrong in it."""
    text = HEAD + "[mcp]\nserver = [5, { name = 3 }]\n"
    messages = [problem.message for problem in problems_of(write(tmp_path, text))]
    assert messages == ["[mcp] server[1] must be a table, not 5", "[[mcp.server]] number 2 name must be text, not 3"]


def test_a_missing_file_says_what_writes_one(tmp_path: Path) -> None:
    """Where there is no file there is a hint at ``agtp init``."""
    problem = problems_of(tmp_path / "none.toml")[0]
    assert problem.file == str(tmp_path / "none.toml")
    assert "it does not exist" in problem.message
    assert "agtp init" in problem.hint


def test_a_file_that_is_not_utf8(tmp_path: Path) -> None:
    """The line of the first wrong octet is named."""
    path = tmp_path / "host.toml"
    path.write_bytes(b"[host]\nserver_id = '\xff'\n")
    problem = problems_of(path)[0]
    assert (problem.line, problem.message) == (2, "the file is not UTF-8")


def test_a_file_that_is_a_directory(tmp_path: Path) -> None:
    """A directory is not a configuration."""
    assert "it is a directory" in problems_of(tmp_path)[0].message


@pytest.mark.parametrize("nested", ["x = " + "[" * 3_000, "x = " + "[" * 3_000 + "]" * 3_000])
def test_a_file_nested_beyond_reason(tmp_path: Path, nested: str) -> None:
    """Nesting that exhausts the parser is a problem, not a crash (T-JB)."""
    assert problems_of(write(tmp_path, nested))[0].message.startswith("the file is not TOML")


@each_row("given", ["agtp://agents.example.com", "https://agents.example.com/", "agents.example.com/a"])
def test_a_name_with_scheme_or_path_is_refused(given: str, tmp_path: Path) -> None:
    """Each URI of the host would have it as its authority; the hint is a line that is sound."""
    [problem] = problems_of(write(tmp_path, HEAD.replace('"h"', f'"{given}"')))
    assert "without a scheme and without a path" in problem.message and problem.line == 2
    assert problem.hint == 'write server_id = "agents.example.com"'


def test_an_empty_file_lacks_a_name_and_production_keys(tmp_path: Path) -> None:
    """Production is the default, and names the command that creates what is missing (AGTP-308)."""
    problems = problems_of(write(tmp_path, ""))
    assert [problem.message.split(" ")[:2] for problem in problems] == [["[host]", "server_id"], ["[host]", "profile"]]
    assert all(name in problems[1].message for name in ("tls.certificate", "tls.key", "tls.client_ca", "audit.key"))
    assert "agtp init --production" in problems[1].hint
    assert all(problem.line == 1 for problem in problems)


def test_production_refuses_unsigned_records(tmp_path: Path) -> None:
    """AGTP-308: production must sign."""
    text = "[host]\nserver_id = 'h'\n[audit]\nsigning = false\n"
    messages = [problem.message for problem in problems_of(write(tmp_path, text))]
    assert any("[audit] signing cannot be false in the production profile" in message for message in messages)


COLLECTION = '[host]\nserver_id = "h"\n[[methods.collection]]\nname = "orders"\n'


@each_row(
    ("lines", "missing"),
    [
        ("", ["read", "write"]),
        ("read = []\n", ["write"]),
        ('write = ["orders:write"]\n', ["read"]),
        ('read = []\nwrite = ["orders:write"]\n', []),
    ],
)
def test_production_collections_say_who_reads_and_who_writes(lines: str, missing: list[str], tmp_path: Path) -> None:
    """Both keys are written, an empty list included: the problem names the line, and the line to add."""
    text = COLLECTION + lines
    found = [each for each in problems_of(write(tmp_path, text)) if each.message.startswith("[[methods.collection]]")]
    assert [(each.line, each.file) for each in found] == [(4, str(tmp_path / "host.toml"))] * len(missing)
    for key, problem in zip(missing, found, strict=True):
        assert f"{key} is missing" in problem.message
        assert f'add {key} = ["orders:{key}"]' in problem.hint and f"{key} = []" in problem.hint


def test_development_collections_may_say_nothing(tmp_path: Path) -> None:
    """A development host takes a collection without ``read`` and ``write``."""
    config = load(write(tmp_path, HEAD + '[[methods.collection]]\nname = "orders"\n'), ENVIRON)
    assert [each.name for each in config.methods.collection] == ["orders"]


def test_production_refuses_open_lifecycle(tmp_path: Path) -> None:
    """AGTP-247: open needs the development profile."""
    text = "[host]\nserver_id = 'h'\n[lifecycle]\nauth = 'open'\n"
    messages = [problem.message for problem in problems_of(write(tmp_path, text))]
    assert any('"open" needs profile = "development"' in message for message in messages)


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    """T-KY: private keys are their owner's alone; the hint is the command."""
    (tmp_path / "tls.key").write_text("x")
    (tmp_path / "tls.key").chmod(0o640)
    problem = problems_of(write(tmp_path, HEAD + "[tls]\nkey = 'tls.key'\n"))[0]
    assert "can be read by others" in problem.message
    assert "chmod 600" in problem.hint
    (tmp_path / "tls.key").chmod(0o600)
    assert load(tmp_path / "host.toml", {}).tls.key == tmp_path / "tls.key"


def test_no_secret_is_ever_in_a_problem(tmp_path: Path) -> None:
    """Security invariant 14: neither an inline secret nor a resolved one is repeated in a report (T-SE-1)."""
    (tmp_path / "token").write_text("canary-file\n")
    text = HEAD + (
        "[[mcp.server]]\nname = 'a'\nurl = 'https://x/'\nbearer = 'canary-inline'\ntimeout = 0\n"
        "[mcp.server.headers]\nX-A = '${CANARY}'\nX-B = 'file:token'\nX-C = 'env:NONE'\n"
    )
    environ = {"CANARY": "canary-environment\0"}
    with pytest.raises(ConfigurationError) as caught:
        load(write(tmp_path, text), environ)
    report = f"{caught.value}{caught.value!r}{caught.value.problems!r}"
    assert len(caught.value.problems) == 4
    assert "canary-" not in report
