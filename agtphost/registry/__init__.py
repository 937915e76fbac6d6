"""
The registry: cards of everything that can be called here, and of agents elsewhere that registered (HAIDIP).

It answers AGTP at ``/cards`` where the configuration has ``[registry]``; its HTTP side translates to that. All methods
ask one :class:`.catalogue.Cards`, which each configuration creates anew::

    cards.all(context, after)          # what this caller is shown, in the order of ids: Listed(entry, state, ...)
    cards.get(context, card_id)        # one card; 404 if it does not exist, or not for this caller
    cards.octets(listed)               # the card as it was received
    cards.target(context, card_id)     # what it leads to: operations by name; the first is the default
    cards.leases.renew(card_id)        # its agent answered: renew the lease

Registered cards are state items and change with the record of the call that changes them. Leases are in memory only;
after a start every agent counts as just seen. Cards of hosted agents and servers are generated when they are read.

- :mod:`.feature`: builds the registry for a configuration; :mod:`.bindings`: its methods
- :mod:`.card`: cards as values
- :mod:`.card_reader`: the strict parser of cards
- :mod:`.shorthand`: the draft's ``{"text": "string"}`` as a JSON Schema
- :mod:`.endpoints`: which endpoint URLs a card may have
- :mod:`.entry`: what the registry states about a card
- :mod:`.generated`: cards of what is hosted
- :mod:`.registered`: registered cards and their versions
- :mod:`.leases`: which registered agents are alive
- :mod:`.catalogue`: all cards, and who is shown which
- :mod:`.filters`: filters of lists and searches
- :mod:`.listing`: QUERY; :mod:`.card_search`: FIND
- :mod:`.registration`: REGISTER, RENEW, WITHDRAW and APPROVE
- :mod:`.invocation`: EXECUTE
- :mod:`.remote_agents`: calls of agents that are not hosted here; :mod:`.card_peers`: of those at other AGTP hosts
- :mod:`.search_rate`: the rate limit of searches by strangers
- :mod:`.mcp_servers`: hosted MCP servers in the format of the MCP registry
- :mod:`.providers`: origins that this host may call for cards
- :mod:`.card_fetcher`: cards from their URLs
- :mod:`.maintenance`: refetching, probing and forgetting of cards; :mod:`.card_watch`: while the host runs
"""
