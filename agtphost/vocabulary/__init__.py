"""
The words of the protocol: data and grammar, importing nothing.

- :mod:`.status`: the status registry
- :mod:`.catalog`: the method catalog (``methods.json``); :mod:`.catalog_files`: catalogs of operators
- :mod:`.grants`: the texts of grants, by which an operator says what an agent may call
- :mod:`.paths`: the path grammar
- :mod:`.platforms`: which operating systems run a host
- :mod:`.identifiers`: Agent-ID, Audit-ID, Response-ID and the opaque ids
- :mod:`.uris`: the six ``agtp://`` URI forms
- :mod:`.scopes`: Authority-Scope tokens and what covers what
- :mod:`.media_types`: the registered media types
- :mod:`.mcp_members`: names that this host adds to members of MCP messages
- :mod:`.jsontext`: the one strict JSON decoder
- :mod:`.a2a_errors`: errors of A2A 1.0: codes in JSON-RPC, statuses in HTTP+JSON, reasons in an ErrorInfo
- :mod:`.a2a_push`: what a request of A2A about a push notification configuration must name
- :mod:`.allocator`: how the C library's allocator is set up, and when it gives memory back
- :mod:`.addresses`: which addresses may be connected to where a name is not the operator's own word
- :mod:`.budget`: budgets: ``Budget-Limit`` and ``Cost-Estimate``
- :mod:`.catalog_pin`: pins: which content of a catalog file its operator approved
- :mod:`.catalog_profile`: profiles: methods of one industry, valid where a deployment declares them
- :mod:`.catalog_set`: everything that decides which methods one host knows: its catalogs, their versions, its
  profiles
- :mod:`.catalog_versions`: versions of the method catalog: semver, and which one two parties use
- :mod:`.bounds`: what such a bound says: its members, units and shares
- :mod:`.expression_errors`: errors of regular expressions and JMESPath, in our words, with what to do
- :mod:`.foreign_errors`: errors of the system and of foreign libraries in our words, with what to do
- :mod:`.escaping`: untrusted texts with invisible and reordering characters escaped
- :mod:`.regular_files`: the content of a file that may be a pipe or a device by mistake; :mod:`.remembered_files`: of
  one that a host on standby has read
- :mod:`.quotas`: the bounds of all state that requests make the host keep, in one list
- :mod:`.jsonc`: JSON with comments, as editors keep their settings in, and one member of it changed
- :mod:`.jsonslices`: large JSON texts, written in slices, so that the writer can do other work in between
- :mod:`.money`: amounts of money in requests: of PURCHASE, of carts, and of the ceiling that a principal allows
- :mod:`.database_url`: URLs of PostgreSQL databases: their password, hosts and TLS mode
- :mod:`.mount_paths`: what part of an HTTP listener's paths a surface has
- :mod:`.lru`: tables that keep what is newest, the one way of bounding what is remembered
- :mod:`.origins`: scheme, host and port of a URL in one spelling
- :mod:`.own_address`: which ``agtp:`` URIs name this host itself
- :mod:`.json_paths`: places inside of JSON, such as ``order.customer.city``
- :mod:`.formulas`: formulas as trees over decimal numbers
- :mod:`.quantities`: durations and sizes as text for people
- :mod:`.quic_codes`: the error codes of AGTP over QUIC, and the alerts of TLS that end a handshake
- :mod:`.read_only`: objects and arrays that cannot be changed: what the host shares with code of operators
- :mod:`.given_values`: copies of what a call brought, for code that is not the host's
- :mod:`.reasons`: every reason that the host refuses for: token, status, meaning, remedy, source
- :mod:`.replay`: what a record says was asked, as a question that the gates can be asked today
- :mod:`.sorted_blocks`: many things in the order of their keys, as they were at one moment
- :mod:`.display_names`: what a call is called where people read of it
- :mod:`.steps`: long work that is cut into steps, so that others can have their turn in between
- :mod:`.trace_context`: W3C Trace Context: which trace a call belongs to, as its caller says
- :mod:`.uri_templates`: URI templates as far as it takes to see whose a URI may be
- :mod:`.times`: times as RFC 3339 texts
- :mod:`.tool_paths`: paths of hosted tools over HTTP: ``/tools/SERVER/TOOL``
- :mod:`.tomlparser`: the parser of TOML: Python's own, or a compiled one
- :mod:`.tomltext`: TOML with the line of each key, and TOML written; :mod:`.tomledit`: elements of lists in TOML texts
- :mod:`.toml_salvage`: the sound part of a TOML file with syntax errors
- :mod:`.vitals`: readings of a host's parts on request, and what keeps a host from being ready
- :mod:`.yamltext`: the one YAML decoder for bodies from outside, where the operator asks for YAML
"""
