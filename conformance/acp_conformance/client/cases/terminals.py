"""How a client serves terminal/*, if it announces terminals. The commands are small programs in Python."""

from typing import Any

import anyio
from anyio.abc import SocketAttribute, SocketStream

from acp_conformance.client.registry import case
from acp_conformance.client.subject import PYTHON, Client, brief
from acp_conformance.core.case import MUST, SHOULD, fail

_ACP = "ACP v1"
_FOR_EVER = "import time\ntime.sleep(60)"


async def start(client: Client, program: str, **params: Any) -> str:
    """Start a program in a terminal, and return the id of the terminal."""
    command, *args = [*PYTHON, program]
    result = await client.result("terminal/create", {"command": command, "args": args, **params})
    id = result.get("terminalId") if isinstance(result, dict) else None
    if not isinstance(id, str):
        fail(f"terminal/create was answered with the result {brief(result)}")
    return id


async def _ready(client: Client) -> None:
    await client.prompt()
    client.require("terminal")


async def _output(client: Client, terminal: str) -> dict[str, Any]:
    result = await client.result("terminal/output", {"terminalId": terminal})
    if not isinstance(result, dict) or not isinstance(result.get("output"), str):
        fail(f"terminal/output was answered with the result {brief(result)}")
    return result


async def _ended(client: Client, terminal: str) -> Any:
    return await client.result("terminal/wait_for_exit", {"terminalId": terminal})


@case("terminals/create-does-not-wait", level=MUST, source=_ACP, section="Terminals, Executing Commands")
async def create_does_not_wait(client: Client) -> None:
    """terminal/create is answered while the command still runs."""
    await _ready(client)
    terminal = await start(client, _FOR_EVER)
    status = (await _output(client, terminal)).get("exitStatus")
    if status is not None:
        fail(f"the command runs for a minute, and has the exit status {brief(status)}")


@case("terminals/output", level=MUST, source=_ACP, section="Terminals, Getting Output")
async def output(client: Client) -> None:
    """The output of a command that has ended is complete."""
    await _ready(client)
    program = "import sys\nsys.stdout.buffer.write('ä 🙂\\n'.encode() * 3)"
    terminal = await start(client, program)
    await _ended(client, terminal)
    found = await _output(client, terminal)
    if found["output"].replace("\r\n", "\n") != "ä 🙂\n" * 3 or found.get("truncated") is not False:
        fail(f"the command wrote three lines; the answer is {brief(found)}")


@case("terminals/standard-error", level=SHOULD, source=_ACP, section="Terminals, Getting Output")
async def standard_error(client: Client) -> None:
    """The output of a command includes its standard error."""
    await _ready(client)
    terminal = await start(client, "import sys\nsys.stderr.write('to standard error')")
    await _ended(client, terminal)
    if "to standard error" not in (found := await _output(client, terminal))["output"]:
        fail(f"the command wrote to standard error; the answer is {brief(found)}")


@case("terminals/two-at-once", level=MUST, source=_ACP, section="Terminals, Executing Commands")
async def two_at_once(client: Client) -> None:
    """Two concurrent commands have two terminals with separate outputs and exit statuses."""
    await _ready(client)
    codes = (3, 4)
    terminals = [await start(client, f"print('command {code}')\nraise SystemExit({code})") for code in codes]
    if terminals[0] == terminals[1]:
        fail(f"both terminals are {terminals[0]!r}")
    for terminal, code in zip(terminals, codes, strict=True):
        result = await _ended(client, terminal)
        if not isinstance(result, dict) or result.get("exitCode") != code:
            fail(f"the command exits with {code}; the answer is {brief(result)}")
        if (found := (await _output(client, terminal))["output"]).strip() != f"command {code}":
            fail(f"the command wrote 'command {code}'; its output is {found!r:.200}")


@case("terminals/exit-status-after-kill", level=SHOULD, source=_ACP, section="Terminals, Killing Commands")
async def exit_status_after_kill(client: Client) -> None:
    """The exit status of a killed command is not 0."""
    await _ready(client)
    terminal = await start(client, _FOR_EVER)
    await client.result("terminal/kill", {"terminalId": terminal})
    result = await _ended(client, terminal)
    if isinstance(result, dict) and result.get("exitCode") == 0 and not result.get("signal"):
        fail(f"the command was killed; the answer is {brief(result)}")


@case("terminals/exit-status", level=MUST, source=_ACP, section="Terminals, Waiting for Exit")
async def exit_status(client: Client) -> None:
    """Requests that wait for a command get its exit status."""
    await _ready(client)
    result = await _ended(client, await start(client, "raise SystemExit(7)"))
    if not isinstance(result, dict) or result.get("exitCode") != 7:
        fail(f"the command exits with 7; the answer is {brief(result)}")


@case("terminals/exit-status-with-output", level=MUST, source=_ACP, section="Terminals, Getting Output")
async def exit_status_with_output(client: Client) -> None:
    """After a command has ended, its output comes with its exit status."""
    await _ready(client)
    terminal = await start(client, "raise SystemExit(7)")
    await _ended(client, terminal)
    status = (await _output(client, terminal)).get("exitStatus")
    if not isinstance(status, dict) or status.get("exitCode") != 7:
        fail(f"the command has ended with 7; terminal/output has the exit status {brief(status)}")


@case("terminals/waiting-after-the-end", level=MUST, source=_ACP, section="Terminals, Waiting for Exit")
async def waiting_after_the_end(client: Client) -> None:
    """Each request that waits for a command that has already ended is answered at once with the same status."""
    await _ready(client)
    terminal = await start(client, "raise SystemExit(7)")
    for _ in range(2):
        result = await _ended(client, terminal)
    if not isinstance(result, dict) or result.get("exitCode") != 7:
        fail(f"the command has ended with 7; the second answer is {brief(result)}")


@case("terminals/arguments", level=MUST, source=_ACP, section="Terminals, Executing Commands")
async def arguments(client: Client) -> None:
    """A command has exactly the arguments that the agent names, without a shell that splits or expands them."""
    await _ready(client)
    words = ["two words", "$HOME", "*", "a;b", "'\"", ""]
    command, *args = [*PYTHON, "import sys;print(sys.argv[1:])", *words]
    made = await client.result("terminal/create", {"command": command, "args": args})
    terminal = made.get("terminalId") if isinstance(made, dict) else None
    if not isinstance(terminal, str):
        fail(f"terminal/create was answered with the result {brief(made)}")
    await _ended(client, terminal)
    if (found := (await _output(client, terminal))["output"]).strip() != str(words):
        fail(f"the arguments are {words}; the command wrote {found!r}")


@case("terminals/environment", level=MUST, source=_ACP, section="Terminals, Executing Commands")
async def environment(client: Client) -> None:
    """A command has the variables and the working directory that the agent names."""
    await _ready(client)
    (client.folder / "below").mkdir()
    terminal = await start(
        client,
        "import os\nprint(os.environ.get('CONFORMANCE'), os.path.basename(os.getcwd()))",
        env=[{"name": "CONFORMANCE", "value": "a value"}],
        cwd=str(client.folder / "below"),
    )
    await _ended(client, terminal)
    if (found := (await _output(client, terminal))["output"]).strip() != "a value below":
        fail(f"the variable is 'a value', the folder 'below'; the command wrote {found!r}")


@case("terminals/output-limit", level=MUST, source=_ACP, section="Terminals, Executing Commands")
async def output_limit(client: Client) -> None:
    """The client keeps the end of long output within the limit, and cuts the output between characters."""
    await _ready(client)
    program = "import sys\nsys.stdout.buffer.write('é'.encode() * 1000 + b'end')"
    terminal = await start(client, program, outputByteLimit=100)
    await _ended(client, terminal)
    found = await _output(client, terminal)
    text = found["output"]
    whole = ("é" * 1000 + "end").endswith(text) and text.endswith("end")
    if not whole or len(text.encode("utf-8", "replace")) > 100 or found.get("truncated") is not True:
        fail(f"of 2,003 bytes at most 100 are to be kept; the answer is {brief(found)}")


@case("terminals/waiting-holds-nothing-up", level=MUST, source=_ACP, section="Terminals, Building a Timeout")
async def waiting_holds_nothing_up(client: Client) -> None:
    """While a request waits for the end of a command, other requests are answered, and the command can be killed."""
    await _ready(client)
    terminal = await start(client, _FOR_EVER)
    waiting = await client.ask("terminal/wait_for_exit", {"terminalId": terminal})
    await client.result("terminal/kill", {"terminalId": terminal})
    await client.answer(waiting)


@case("terminals/killed-is-still-there", level=MUST, source=_ACP, section="Terminals, Killing Commands")
async def killed_is_still_there(client: Client) -> None:
    """After terminal/kill the output and the exit status are still available."""
    await _ready(client)
    terminal = await start(client, "import time\nprint('begun', flush=True)\ntime.sleep(60)")
    while "begun" not in (await _output(client, terminal))["output"]:  # noqa: ASYNC110 - there is no event
        await anyio.sleep(0.01)
    await client.result("terminal/kill", {"terminalId": terminal})
    await _ended(client, terminal)
    if "begun" not in (found := await _output(client, terminal))["output"]:
        fail(f"the output of a killed command is {brief(found)}")


@case("terminals/released-is-gone", level=MUST, source=_ACP, section="Terminals, Releasing Terminals")
async def released_is_gone(client: Client) -> None:
    """After terminal/release the id of the terminal is invalid."""
    await _ready(client)
    terminal = await start(client, "pass")
    await client.result("terminal/release", {"terminalId": terminal})
    answer = await client.call("terminal/output", {"terminalId": terminal})
    if "error" not in answer:
        fail(f"terminal/output of a released terminal was answered with {brief(answer)}")


@case("terminals/release-kills", level=MUST, source=_ACP, section="Terminals, Releasing Terminals")
async def release_kills(client: Client) -> None:
    """Releasing a terminal ends its command."""
    await _ready(client)
    # The command holds a connection to here, which ends with the command.
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    port = listener.extra(SocketAttribute.local_port)
    begun, ended = anyio.Event(), anyio.Event()

    async def hold(stream: SocketStream) -> None:
        async with stream:
            begun.set()
            try:
                await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                ended.set()

    async def serve() -> None:
        async with listener:
            await listener.serve(hold)

    client.stage.spawn(serve)
    terminal = await start(client, f"import socket\nsocket.create_connection(('127.0.0.1', {port})).recv(1)")
    with anyio.move_on_after(client.conversation.patience):
        await begun.wait()
    if not begun.is_set():
        fail("the command of terminal/create was not started")
    await client.result("terminal/release", {"terminalId": terminal})
    with anyio.move_on_after(client.conversation.patience):
        await ended.wait()
    if not ended.is_set():
        fail("the command runs on after terminal/release")
