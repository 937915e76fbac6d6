"""
The registry: cards of everything that can be called here, and of agents elsewhere that registered (HAIDIP).

It answers AGTP at ``/cards`` where there is ``[registry]``; HTTP is a translation of that. Who else needs cards asks
one :class:`.catalogue.Cards`, which each configuration makes anew and ``core.methods.cards`` is (None without the
section)::

    cards.all(context, after)          # what this caller is shown, in the order of ids: Listed(entry, state, ...)
    cards.get(context, card_id)        # one; 404 for what is not there, or not for this caller
    cards.octets(listed)               # the card as it came
    cards.target(context, card_id)     # what it leads to: operations by name, the first is meant where none is named
    cards.leases.saw(card_id)          # it answered: a sign of life

Cards that registered are state items and change with the record of the call that changes them; leases are memory, and
everybody counts as heard of at a start. What is hosted has its cards made when they are read.

- :mod:`.card`: cards as values
- :mod:`.reading`: the one strict reader of them
- :mod:`.shorthand`: the draft's ``{"text": "string"}`` as a JSON Schema
- :mod:`.endpoints`: where a card can say that its agent is
- :mod:`.entry`: what the registry says of a card
- :mod:`.generated`: cards of what is hosted
- :mod:`.registered`: cards that registered, and their versions
- :mod:`.leases`: who of them is there
- :mod:`.catalogue`: all of them, and who is shown which
- :mod:`.filters`: what lists and searches are narrowed by
- :mod:`.showing`: QUERY; :mod:`.finding`: FIND
- :mod:`.changing`: REGISTER, RENEW, WITHDRAW and APPROVE
- :mod:`.invoking`: EXECUTE
- :mod:`.elsewhere`: calls of agents that are not hosted here
- :mod:`.pacing`: how often strangers may search
- :mod:`.mcp_servers`: hosted MCP servers as the registry of MCP has servers
- :mod:`.providers`: origins that this host may call for cards
- :mod:`.fetching`: cards from their URLs
- :mod:`.maintenance`: what becomes of cards without a call
"""
