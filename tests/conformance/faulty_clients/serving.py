"""Faults of files and terminals."""

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Any

from clean import Client, Refusal, Terminal


class AddsALine(Client):
    """Reads files with a newline too many."""

    async def read_file(self, params: Any) -> Any:
        return {"content": (await super().read_file(params))["content"] + "\n\n"}


class CountsFromZero(Client):
    """Counts lines from 0."""

    def cut_out(self, lines: list[str], params: Any) -> list[str]:
        lines = lines[params.get("line") or 0 :]
        return lines if params.get("limit") is None else lines[: params["limit"]]


class IgnoresTheLimit(Client):
    """Reads to the end of the file."""

    def cut_out(self, lines: list[str], params: Any) -> list[str]:
        return lines[(params.get("line") or 1) - 1 :]


class MissingIsEmpty(Client):
    """Reads nothing from a file that does not exist."""

    async def read_file(self, params: Any) -> Any:
        if not os.path.exists(self.path(params)):  # noqa: ASYNC240
            return {"content": ""}
        return await super().read_file(params)


class DiesOfMissing(Client):
    """Ends if a file does not exist."""

    async def read_file(self, params: Any) -> Any:
        if not os.path.exists(self.path(params)):  # noqa: ASYNC240
            os._exit(1)
        return await super().read_file(params)


class TakesRelativePaths(Client):
    """Reads a relative path from wherever it is."""

    def path(self, params: Any) -> str:
        return params["path"]


class WritesOnlyWhatIsThere(Client):
    """Makes no new files."""

    async def write_file(self, params: Any) -> Any:
        if not os.path.exists(params["path"]):  # noqa: ASYNC240
            raise Refusal(-32002, "Resource not found")
        return await super().write_file(params)


class SaysItWasWritten(Client):
    """Reports a write that has failed as done."""

    async def write_file(self, params: Any) -> Any:
        try:
            return await super().write_file(params)
        except Refusal:
            return None


class AnswersFormsWithOk(Client):
    """Answers a form by an action of its own."""

    capabilities = {**Client.capabilities, "elicitation": {"form": {}}}  # noqa: RUF012

    def handlers(self) -> dict[str, Callable[[Any], Any]]:
        return {**super().handlers(), "elicitation/create": self.form}

    async def form(self, params: Any) -> Any:
        return {"action": "ok"}


class Appends(Client):
    """Leaves what was in the file."""

    async def write_file(self, params: Any) -> Any:
        with open(self.path(params), "r+" if os.path.exists(params["path"]) else "w", encoding="utf-8") as file:  # noqa: ASYNC230, ASYNC240
            file.write(params["content"])


class CreateWaits(Client):
    """Answers terminal/create when the command has ended."""

    async def create(self, params: Any) -> Any:
        result = await super().create(params)
        await self.terminals[result["terminalId"]].complete
        return result


class ForgetsOutput(Client):
    """Has only the first line of the output."""

    async def output(self, params: Any) -> Any:
        result = await super().output(params)
        return {**result, "output": result["output"].split("\n")[0]}


class EveryExitIsZero(Client):
    """Does not look at the exit status."""

    async def wait_for_exit(self, params: Any) -> Any:
        await super().wait_for_exit(params)
        return {"exitCode": 0, "signal": None}


class OwnEnvironment(Client):
    """Starts commands with its own environment."""

    async def create(self, params: Any) -> Any:
        return await super().create({**params, "env": []})


class OwnFolder(Client):
    """Starts commands in its own folder."""

    async def create(self, params: Any) -> Any:
        return await super().create({**params, "cwd": None})


class _Whole(Terminal):
    def output(self) -> str:
        return self.data.decode("utf-8", "replace")


class CutsCharacters(Client):
    """Cuts the output in the middle of a character."""

    async def create(self, params: Any) -> Any:
        result = await super().create(params)
        terminal = self.terminals[result["terminalId"]]
        terminal.__class__ = _Whole
        return result


class KeepsTheBeginning(Client):
    """Cuts too much output off at its end."""

    async def output(self, params: Any) -> Any:
        terminal = self.terminal(params)
        return {**await super().output(params), "output": ("é" * 1000)[: (terminal.limit or 2000) // 2]}


class OneAtATime(Client):
    """Serves the next request when the last one has been answered."""

    def __init__(self, agent: list[str]) -> None:
        super().__init__(agent)
        self.turn = asyncio.Lock()

    async def serve(self, message: dict[str, Any]) -> None:
        async with self.turn:
            await super().serve(message)


class KillReleases(Client):
    """Forgets a terminal when its command is killed."""

    async def kill(self, params: Any) -> Any:
        return await self.release(params)


class ReleasedIsThere(Client):
    """Keeps a terminal that was released."""

    async def release(self, params: Any) -> Any:
        await self.terminal(params).kill()
        return {}


class ReleaseLetsRun(Client):
    """Forgets a terminal, and lets its command run."""

    async def release(self, params: Any) -> Any:
        del self.terminals[params["terminalId"]]
        return {}


class ReadsAsText(Client):
    """Reads files with the ends of lines of its own system."""

    async def read_file(self, params: Any) -> Any:
        return {"content": (await super().read_file(params))["content"].replace("\r\n", "\n")}


class WritesAsText(Client):
    """Writes files with the ends of lines of its own system."""

    async def write_file(self, params: Any) -> Any:
        return await super().write_file({**params, "content": params["content"].replace("\r\n", "\n")})


class TellsOnlyWhoWaits(Client):
    """Has the exit status for those who wait alone."""

    async def output(self, params: Any) -> Any:
        found = await super().output(params)
        return {key: value for key, value in found.items() if key != "exitStatus"}


class TellsTheEndOnce(Client):
    """Forgets an exit status that was told."""

    async def wait_for_exit(self, params: Any) -> Any:
        terminal = self.terminal(params)
        if terminal.limit == -1:
            return {"exitCode": None, "signal": None}
        found = await super().wait_for_exit(params)
        terminal.limit = -1
        return found


class ArgumentsThroughAShell(Client):
    """Has a shell look for the words of a command."""

    async def create(self, params: Any) -> Any:
        line = " ".join([params["command"], *(f'"{word}"' for word in params.get("args") or ())])
        return await super().create({**params, "command": "/bin/sh", "args": ["-c", line]})


class LimitIsALine(Client):
    """Takes the number of lines that are wanted for the last one's."""

    def cut_out(self, lines: list[str], params: Any) -> list[str]:
        return lines[(params.get("line") or 1) - 1 : params.get("limit")]


class NegativeExitCodes(Client):
    """Tells of a signal by an exit code below 0."""

    async def wait_for_exit(self, params: Any) -> Any:
        status = await super().wait_for_exit(params)
        return {"exitCode": self.terminal(params).process.returncode} if status["signal"] else status


class DropsTheLastNewline(Client):
    """Joins the lines of a part without the newline behind the last."""

    def cut_out(self, lines: list[str], params: Any) -> list[str]:
        lines = super().cut_out(lines, params)
        return lines if params.get("limit") is None else [*lines[:-1], *(each.rstrip("\n") for each in lines[-1:])]


class OneTerminal(Client):
    """Has one terminal, whose command is the last."""

    async def create(self, params: Any) -> Any:
        made = (await super().create(params))["terminalId"]
        self.terminals = {"terminal": self.terminals[made]}
        return {"terminalId": "terminal"}


class ShowsOnlyStandardOutput(Client):
    """Leaves out what a command writes to standard error."""

    async def create(self, params: Any) -> Any:
        quiet = "import os, sys; os.dup2(os.open(os.devnull, os.O_WRONLY), 2); os.execvp(sys.argv[1], sys.argv[1:])"
        words = [sys.executable, "-c", quiet, params["command"], *(params.get("args") or ())]
        return await super().create({**params, "command": words[0], "args": words[1:]})


class KilledIsDone(Client):
    """Says of a command that was killed that it has ended well."""

    async def wait_for_exit(self, params: Any) -> Any:
        status = await super().wait_for_exit(params)
        return {"exitCode": 0, "signal": None} if status["exitCode"] is None else status
