"""What can go wrong with an agent as seen from its client, beyond the errors that both sides know.

It raises nothing itself.
"""

from __future__ import annotations

from acp_server.errors import AcpError, ConnectionClosed


class AgentExited(ConnectionClosed):
    """The agent's process is gone, or it has closed its output: no answer will come.

    `exit_code` is None if the process still runs; minus the number of the signal if one ended it. `stderr` is the end
    of what it wrote there.
    """

    def __init__(self, method: str | None, exit_code: int | None, stderr: str) -> None:
        super().__init__(method)
        self.exit_code = exit_code
        self.stderr = stderr
        if exit_code is None:
            what = "the agent closed its output although it still runs"
        elif exit_code < 0:
            what = f"the agent was ended by signal {-exit_code}"
        else:
            what = f"the agent exited with status {exit_code}"
        if method is not None:
            what += f"; {method} has no answer"
        if stderr:
            what += "; its last words:\n" + stderr
        self.args = (what,)


class SessionTaken(AcpError):
    """An id that means one session here is given to another by the agent, or was while the session was being taken up.

    Nothing is sent for the session that has lost its id: it would reach the other one.
    """

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"the id {session_id!r} stands for another session by now")


class CancelUnanswered(AcpError, TimeoutError):
    """The agent did not answer a cancelled prompt, so that the prompt was withdrawn `seconds` after its cancel.

    What the agent still says of that turn does not belong to it.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"the agent had not answered a cancelled session/prompt after {seconds:.1f} s")


class UpdatesDropped(AcpError):
    """Of a turn, `count` updates have been dropped so far, and all that follow will be: the program has not taken those
    before them for too long. The turn goes on, and its answer is not affected."""

    def __init__(self, count: int) -> None:
        self.count = count
        super().__init__(f"{count} updates of the turn were dropped: those before them were not taken in time")


class UnsupportedVersion(AcpError):
    """The agent does not speak the version of the protocol that this client speaks (ACP, Initialization)."""

    def __init__(self, offered: int, wanted: int) -> None:
        self.offered = offered
        self.wanted = wanted
        super().__init__(f"the agent speaks version {offered} of the protocol, this client version {wanted}")
