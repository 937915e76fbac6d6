"""
People and agents that look after agents: ESCALATE, CONFIRM, NOTIFY, SUSPEND, RESUME, governance tokens.

- :mod:`.escalation`: ESCALATE: a decision handed to an operator
- :mod:`.confirmation`: CONFIRM: a decision, or an item of a list
- :mod:`.notification`: NOTIFY and the inboxes it fills
- :mod:`.suspension`: SUSPEND and RESUME
- :mod:`.sessions`: which sessions there are, and which are suspended
- :mod:`.governance`: governance tokens: a governance platform's verdict on one action of one agent
- :mod:`.sharing`: the operator's inbox is everybody's, and nobody's alone: shares by the sender's owner
"""
