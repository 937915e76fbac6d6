"""
Long computations in worker processes: threads share the interpreter, and callers would wait for one another.

A handler of a binding with the weight ``compute`` returns a :class:`~.functions.Computation`: the name of a registered
pure function and JSON-compatible data. The dispatcher runs it, in the host's process where the input is small, else in
a worker.

- :mod:`.functions`: the registered functions, which inputs are small, and how results and refusals are encoded
- :mod:`.pool`: the reactor's side: the queue, which agent is next, limits, and the worker processes
- :mod:`.worker`: the program of a worker process; it imports the functions that it is asked for, and no Twisted
"""
