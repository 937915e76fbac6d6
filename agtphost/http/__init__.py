"""
HTTP beside AGTP.

- :mod:`.wellknown`: the bootstrap document of ``/.well-known/agtp``, as a value
- :mod:`.pages`: documents that are the same for everybody, over HTTP
- :mod:`.mounts`: what one listener serves: each surface at its own paths, and one set of rules before all of them
- :mod:`.access`: what an access line tells of one HTTP request
- :mod:`.a2a_card`: the Agent Card of a hosted agent, derived from its Identity Document
- :mod:`.clients`: who an HTTP client is, for every surface: by its certificate, by a token, or by an identity
  provider's token
- :mod:`.a2a_events`: one answer of the A2A front that comes event by event
- :mod:`.a2a_front`: the A2A front: HTTP clients of A2A 1.0 and 0.3 reach hosted agents through the dispatcher
- :mod:`.a2a_legacy`: A2A 0.3 at the front: its requests in the shapes of 1.0, and answers of 1.0 in its shapes
- :mod:`.a2a_messages`: between A2A's messages and tasks and the input and result of an endpoint
- :mod:`.a2a_relay`: A2A agents behind the host at the front: every operation is carried to them through the
  dispatcher, and answered whole
- :mod:`.a2a_rest`: HTTP+JSON of the A2A front: one request read, its answers written
- :mod:`.a2a_rpc`: JSON-RPC of the A2A front: one request read, its answers written, in A2A 1.0 and 0.3
- :mod:`.a2a_runs`: calls of A2A clients under way: each becomes one request to the dispatcher, and its outcome a task
- :mod:`.cross_origin`: CORS: which pages elsewhere may read the answers of a surface
- :mod:`.event_stream`: answers that come event by event, and clients that leave before they are whole
- :mod:`.gateway`: the HTTP gateway: any HTTP client calls every endpoint and every tool
- :mod:`.gateway_documents`: what the gateway answers itself, below ``/.well-known/``
- :mod:`.conditional`: conditional requests: whether who asks again has the octets already
- :mod:`.viewer_files`: the page of the OpenAPI document: Swagger UI, as a package carries it, and a little of our own
- :mod:`.gateway_events`: answers of the gateway that come event by event
- :mod:`.channel`: the server's side of one HTTP connection: Twisted's HTTP/1.1, with an end to all waiting and a
  bound on all keeping
- :mod:`.framing`: which octets of a connection are a request: Twisted's reading, without what can be read in two ways
- :mod:`.heads`: heads of requests that arrived whole, read in one step instead of line by line
- :mod:`.exchange`: one HTTP request and its answer: admitted before its body is taken, its body of bounded length
- :mod:`.fetch`: documents fetched over HTTPS on the operator's word: bounded, verified, never redirected
- :mod:`.registry`: the registry over HTTP (HAIDIP): cards, search, registration and calls
- :mod:`.registry_routes`: where what is in it, and which request of AGTP each request is
- :mod:`.registry_calls`: one request to it as one of AGTP, and one answer as its clients read it
- :mod:`.registry_errors`: what went wrong, as its clients read it
- :mod:`.registry_document`: what it says of itself: its OpenAPI document
- :mod:`.refusals`: what a surface refuses at its door, before anything is called: one shape for all, on record where
  somebody is named
- :mod:`.site`: where this host speaks HTTP: one service for every such listener
- :mod:`.translation`: between HTTP and AGTP, for the gateway: one request, one answer
- :mod:`.status`: what an answer of AGTP is to HTTP: the one table for every surface that gives such answers
- :mod:`.tool_calls`: ``POST /tools/SERVER/TOOL`` of the gateway: a call of one hosted tool
- :mod:`.tls`: the TLS side of listeners that speak HTTP: from PEM files, and renewable while the listener runs
"""
