"""Programs that we start: each leads a process group of its own, is listened to, and ends without leftovers.

A program is ended in steps, and each step has its time (`Patience`, in `child`): its input is closed, it is asked to
end, and it is killed with its whole group (`group`). A group that is left when our own process ends is killed as well.
"""
