"""
The fifty standard methods: methods v01.

Each is a row of :mod:`.table`, and is bound on ``METHOD /`` where ``[methods] standard`` names it. A built-in answers
it unless an endpoint of the operator's on the same place does; what no built-in can do waits for such an endpoint, and
is 503 until there is one.

- :mod:`.table`: what each takes, gives, changes and refuses, as the draft's tables have it
- :mod:`.bindings`: those that are switched on, and the operator's endpoints that replace them
- :mod:`.services`: the services that the built-ins use
- :mod:`.results`: what calls give that a method makes for its caller, read off the reactor where they are long
- :mod:`.check`: CHECK
- :mod:`.orchestration`: methods that call others: chains, batches, procedures, and subscriptions
- :mod:`.collections`: FETCH, SEARCH, SCAN, REGISTER, IMPORT, LINK, EMBED and SYNC
- :mod:`.find`: FIND
- :mod:`.transaction_family`: the family of what grants, signs, logs, cancels, hands over and delivers
- :mod:`.authorization`: AUTHORIZE
- :mod:`.cancellation`: CANCEL
- :mod:`.log_method`: LOG
- :mod:`.transfers`: TRANSFER
- :mod:`.queues`: SUBMIT and PULL
- :mod:`.channels`: PUBLISH
- :mod:`.connections`: CONNECT
- :mod:`.confirmation_targets`: bookings, items and schedules, for CONFIRM
- :mod:`.bookings`: bookings, workflows, subscriptions and approvals, for CANCEL
- :mod:`.reservations`: in-flight reservations of unique names
- :mod:`.scheduler`: a scheduler of durable times; :mod:`.timer_queue`: its timer queue
- :mod:`.record_scan`: records of one agent, however many others there are
- :mod:`.messages`: ALERT, BROADCAST, REPLY, SEND and REPORT
- :mod:`.sign`: SIGN
- :mod:`.pure`: methods that work on what their callers send, and keep nothing
"""
