"""
Messages of the standard methods: methods v01 section 7.

What reaches an inbox of this host is committed with the record of the call, as NOTIFY's is; what leaves the host goes
through endpoints that its operator has configured, and through nothing that a caller names.

- :mod:`.delivery`: whose inboxes, and how much of what was sent arrived
- :mod:`.alerts`: ALERT, its acknowledgement, and its escalation without one
- :mod:`.broadcasts`: BROADCAST
- :mod:`.replies`: REPLY
- :mod:`.send`: SEND
- :mod:`.reports`: REPORT
- :mod:`.row_documents`: documents of rows, as JSON, Markdown or HTML
"""
