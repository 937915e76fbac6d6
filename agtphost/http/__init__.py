"""
Serve and call HTTP.

- :mod:`.bootstrap_document`: the bootstrap document of ``/.well-known/agtp``, as a value
- :mod:`.static_pages`: documents that are the same for every client, over HTTP
- :mod:`.mounts`: the surfaces of one listener: each at its own paths, behind common rules
- :mod:`.access_members`: the members of an access line for one HTTP request
- :mod:`.clients`: the identity of an HTTP client, for every surface: by its certificate, by a token, or by an identity
  provider's token
- :mod:`.client_heads`: what requests of one client have in common, for gates that need not look again
- :mod:`.cross_origin`: CORS: the pages of other origins that may read the answers of a surface
- :mod:`.event_stream`: streamed answers, and clients that disconnect before the end
- :mod:`.conditional`: conditional requests
- :mod:`.channel`: the server's side of one HTTP connection: Twisted's HTTP/1.1 with deadlines and bounded memory
- :mod:`.framed_channel`: the framing of requests: Twisted's parser without ambiguous forms
- :mod:`.request_heads`: parsing of complete request heads in one step instead of line by line
- :mod:`.bounded_request`: one HTTP request and its answer: admission before its body is read, a body of bounded length
- :mod:`.fetch`: documents fetched over HTTPS for the operator: bounded, verified, never redirected
- :mod:`.registry`: the registry over HTTP (HAIDIP): cards, search, registration and calls
- :mod:`.registry_routes`: the paths of the registry, and the AGTP request for each HTTP request
- :mod:`.registry_calls`: translation of a registry request to AGTP, and of the answer back
- :mod:`.registry_errors`: errors of the registry in the form of its clients
- :mod:`.registry_document`: the OpenAPI document of the registry
- :mod:`.refusals`: refusals of a surface before anything is called: one form for all, recorded if they name a caller
- :mod:`.served_surface`: the resource that answers for one surface
- :mod:`.http_service`: the service of an HTTP listener
- :mod:`.status`: the table of HTTP statuses of AGTP answers, for every surface
- :mod:`.tls`: the TLS side of HTTP listeners: from PEM files, renewable while the listener runs
"""
