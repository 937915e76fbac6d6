"""
DELEGATE: a task handed to another agent, with part of the caller's authority.

- :mod:`.asynchronous_tasks`: delegated tasks that go on after their DELEGATE was answered 202
- :mod:`.decision`: one hop of a delegation while it is decided on: who hands what to whom, and how it is refused
- :mod:`.task`: what a DELEGATE asks for, read from its parameters
- :mod:`.execution`: doing a delegated task: here, call by call through the dispatcher, or on the host of the
  delegatee
- :mod:`.delegate`: DELEGATE: a task handed to another agent with part of the caller's authority
- :mod:`.tokens`: whether a hop is backed by signatures: its token, and the chain of tokens behind it
"""
