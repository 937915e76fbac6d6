"""
The server side of A2A: clients of A2A 1.0 and 0.3 reach hosted agents, and A2A agents behind the host.

Agents elsewhere that this host calls are in :mod:`agtphost.adapters.a2a`, and so are the tasks of the front's clients.

- :mod:`.feature`: builds the front for a configuration
- :mod:`.card`: the Agent Card of a hosted agent, derived from its Identity Document
- :mod:`.events`: a streamed answer
- :mod:`.front`: the HTTP resource, which calls the dispatcher
- :mod:`.legacy`: A2A 0.3: translation of its requests to 1.0, and of answers from 1.0
- :mod:`.messages`: translation between messages and tasks of A2A and input and result of an endpoint
- :mod:`.relay`: A2A agents behind the host: each operation is forwarded through the dispatcher
- :mod:`.rest`: HTTP+JSON: parsing of requests, encoding of answers
- :mod:`.rpc`: JSON-RPC: parsing of requests, encoding of answers, in A2A 1.0 and 0.3
- :mod:`.runs`: running calls of clients: each becomes one request to the dispatcher, and its outcome a task
"""
