"""
People and agents that look after agents: ESCALATE, CONFIRM, NOTIFY, SUSPEND, RESUME.

- :mod:`.escalation`: ESCALATE: a decision handed to an operator, a person, a group or another agent
- :mod:`.approvals`: ``QUERY /approvals``, and what CONFIRM decides about calls that wait for a person
- :mod:`.confirmation`: CONFIRM: a decision, or an item of a list
- :mod:`.notification`: NOTIFY and the inboxes it fills
- :mod:`.suspension`: SUSPEND and RESUME
- :mod:`.inbox_shares`: shares of the operator's inbox, by the sender's owner
"""
