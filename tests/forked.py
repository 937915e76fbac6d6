"""
Stands for a process of :mod:`tests.forkserver` where another program starts it: ``forked.py SOCKET PROGRAM ...``.

It hands on its descriptors, directory, environment and signals, takes the process with it when it is killed, and ends
as that ends. It is run with ``-I -S``, as nothing but this is to be imported.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
request = {"words": sys.argv[2:], "cwd": os.getcwd(), "environ": dict(os.environ), "session": False, "bound": True}
body = json.dumps(request).encode()
socket.send_fds(connection, [len(body).to_bytes(4)], [0, 1, 2])
connection.sendall(body)
nothing = os.open(os.devnull, os.O_RDWR)
for number in range(3):
    os.dup2(nothing, number)
answers = connection.makefile("rb")
pid = int(answers.readline())
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, lambda given, _: os.kill(pid, given))
code = os.waitstatus_to_exitcode(int(answers.readline()))
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
