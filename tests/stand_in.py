"""`python -I -S stand_in.py SOCKET WORD...`: stands for a program that is a fork of another process, see `prefork`.

Who starts it sees a process with the streams, the environment and the folder of that program, which passes on the
signals that it gets, and ends as the program ends. If it is killed, so is the program. It starts in a few milliseconds,
for it loads nothing but what is built into the interpreter.
"""

import _signal  # pyright: ignore[reportMissingImports] - `signal` needs `enum`
import _socket
import marshal
import os
import sys

_PASSED_ON = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP)

pid = 0
early: list[int] = []
"""The signals that came before it was known whom to pass them to."""


def pass_on(number: int, _frame: object = None) -> None:
    if not pid:
        early.append(number)
        return
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


for number in _PASSED_ON:
    _signal.signal(number, pass_on)

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
pid = int.from_bytes(os.read(told, 4), "big")
for number in early:
    pass_on(number)
status = int.from_bytes(os.read(told, 4), "big", signed=True)
if status < 0:
    _signal.signal(-status, _signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
