"""`python -I -S stand_in.py SOCKET WORD...`: stands for a program that is a fork of another process, see `prefork`.

Who starts it sees a process with the streams, the environment and the folder of that program, which passes on the
signals that it gets, and ends as the program ends. If it is killed, so is the program. It starts in a few milliseconds,
for it loads nothing but what is built into the interpreter.
"""

import _signal  # pyright: ignore[reportMissingImports] - `signal` needs `enum`
import _socket
import marshal
import os
import select
import sys

_PASSED_ON = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP)

pid = 0
"""The fork; 0 until it is known."""
signals = bytearray()
"""Received and not passed on yet."""


def pass_on() -> None:
    while pid and signals:
        try:
            os.kill(pid, signals.pop(0))
        except ProcessLookupError:
            pass


def number() -> int:
    """The next number that the parent of the fork sends. Signals are passed on meanwhile."""
    # A handler in Python would not run for a signal that arrives between its check and a blocking read.
    while told not in (ready := select.select([told, woken], [], [])[0]) or woken in ready:
        if woken in ready:
            signals.extend(os.read(woken, 64))
            pass_on()
    return int.from_bytes(os.read(told, 4), "big", signed=True)


woken, waking = os.pipe()
os.set_blocking(waking, False)
_signal.set_wakeup_fd(waking)
for each in _PASSED_ON:
    _signal.signal(each, lambda *_: None)

place, *words = sys.argv[1:]
line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
line.connect(place)
told, telling = os.pipe()
order = marshal.dumps({"words": words, "env": dict(os.environ), "cwd": os.getcwd()})
files = b"".join(fd.to_bytes(4, sys.byteorder) for fd in (0, 1, 2, telling))
line.sendmsg([len(order).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
line.sendall(order)
for fd in (0, 1, 2, telling):
    os.close(fd)
pid = number()
pass_on()
status = number()
if status < 0:
    _signal.signal(-status, _signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
