"""How a client serves fs/*, if it announces file access."""

from acp_conformance.client.registry import case
from acp_conformance.client.subject import Client, brief
from acp_conformance.core.case import MUST, SHOULD, fail

_ACP = "ACP v1"
_READING = "File System, Reading Files"
_WRITING = "File System, Writing Files"
_LINES = ["first\n", "zweite Zeile: ä\n", "third 🙂\n", "fourth\n"]


async def _read(client: Client, **where: int) -> str:
    """Read a file of four lines, and return the text in the client's response."""
    await client.prompt()
    client.require("fs.readTextFile")
    path = client.folder / "lines.txt"
    path.write_text("".join(_LINES), "utf-8")
    answer = await client.call("fs/read_text_file", {"path": str(path), **where})
    client.outside(answer)
    result = answer.get("result")
    if not isinstance(result, dict) or not isinstance(result.get("content"), str):
        fail(f"fs/read_text_file was answered with {brief(answer)}")
    return result["content"]


@case("files/reads", level=MUST, source=_ACP, section=_READING)
async def reads(client: Client) -> None:
    """A file is read unchanged."""
    content = await _read(client)
    if content != "".join(_LINES):
        fail(f"the file has {''.join(_LINES)!r}, the answer {content!r}")


@case("files/from-a-line", level=MUST, source=_ACP, section=_READING)
async def from_a_line(client: Client) -> None:
    """A file is read from a given line, counted from 1."""
    content = await _read(client, line=3)
    if content.rstrip("\n") != "".join(_LINES[2:]).rstrip("\n"):
        fail(f"from line 3 on there is {''.join(_LINES[2:])!r}, the answer is {content!r}")


@case("files/some-lines", level=MUST, source=_ACP, section=_READING)
async def some_lines(client: Client) -> None:
    """A file is read up to the number of lines that the agent requests."""
    content = await _read(client, line=2, limit=2)
    if content.rstrip("\n") != "".join(_LINES[1:3]).rstrip("\n"):
        fail(f"the lines 2 and 3 are {''.join(_LINES[1:3])!r}, the answer is {content!r}")


@case("files/more-lines-than-there-are", level=MUST, source=_ACP, section=_READING)
async def more_lines_than_there_are(client: Client) -> None:
    """With a limit beyond the end, a file is read unchanged, including the last newline."""
    content = await _read(client, limit=len(_LINES) + 5)
    if content != "".join(_LINES):
        fail(f"the file has {''.join(_LINES)!r}, the answer {content!r}")


@case("files/missing", level=MUST, source=_ACP, section="Schema, ErrorCode, -32002")
async def missing(client: Client) -> None:
    """Reading a file that does not exist is answered with an error, and the connection stays open."""
    await client.prompt()
    client.require("fs.readTextFile")
    answer = await client.call("fs/read_text_file", {"path": str(client.folder / "not-there.txt")})
    if "error" not in answer:
        fail(f"a file that does not exist was read: {brief(answer)}")
    await client.alive()


@case("files/relative-path", level=SHOULD, source=_ACP, section="Overview, Argument requirements")
async def relative_path(client: Client) -> None:
    """A relative path is refused, because all paths of the protocol are absolute."""
    await client.prompt()
    client.require("fs.readTextFile")
    (client.folder / "relative.txt").write_text("text")
    answer = await client.call("fs/read_text_file", {"path": "relative.txt"})
    if "error" not in answer:
        fail(f"'relative.txt' was read: {brief(answer)}")


@case("files/keeps-line-ends", level=MUST, source=_ACP, section=_READING)
async def keeps_line_ends(client: Client) -> None:
    """A file is read with its own line endings: CRLF, LF, and none at its end."""
    await client.prompt()
    client.require("fs.readTextFile")
    text = "one\r\ntwo\nthree\r\nfour"
    path = client.folder / "mixed.txt"
    path.write_bytes(text.encode())
    answer = await client.call("fs/read_text_file", {"path": str(path)})
    client.outside(answer)
    result = answer.get("result")
    if not isinstance(result, dict) or result.get("content") != text:
        fail(f"the file has {text!r}, the answer is {brief(answer)}")


async def _write(client: Client, content: str) -> str:
    path = client.folder / "written.txt"
    answer = await client.call("fs/write_text_file", {"path": str(path), "content": content})
    client.outside(answer)
    if "result" not in answer:
        fail(f"fs/write_text_file was answered with {brief(answer)}")
    if not path.exists():
        fail("fs/write_text_file was answered, and there is no file")
    return path.read_bytes().decode("utf-8", "backslashreplace")


@case("files/creates", level=MUST, source=_ACP, section=_WRITING)
async def creates(client: Client) -> None:
    """Writing creates a missing file in UTF-8, without added characters."""
    await client.prompt()
    client.require("fs.writeTextFile")
    text = "ä line\nanother 🙂, without an end"
    if (found := await _write(client, text)) != text:
        fail(f"written was {text!r}, in the file is {found!r}")


@case("files/writes-line-ends", level=MUST, source=_ACP, section=_WRITING)
async def writes_line_ends(client: Client) -> None:
    """A file is written with the line endings that the agent sends."""
    await client.prompt()
    client.require("fs.writeTextFile")
    text = "one\r\ntwo\nthree"
    if (found := await _write(client, text)) != text:
        fail(f"written was {text!r}, in the file is {found!r}")


@case("files/replaces", level=MUST, source=_ACP, section=_WRITING)
async def replaces(client: Client) -> None:
    """Writing replaces the whole content of the file."""
    await client.prompt()
    client.require("fs.writeTextFile")
    (client.folder / "written.txt").write_text("something that is much longer\n")
    if (found := await _write(client, "short\n")) != "short\n":
        fail(f"written was 'short\\n', in the file is {found!r}")


@case("files/unwritable", level=MUST, source=_ACP, section=_WRITING)
async def unwritable(client: Client) -> None:
    """Writing a file that cannot be written, because a folder has its path, is answered with an error."""
    await client.prompt()
    client.require("fs.writeTextFile")
    path = client.folder / "folder"
    path.mkdir()
    answer = await client.call("fs/write_text_file", {"path": str(path), "content": "text"})
    if "error" not in answer:
        fail(f"there is a folder, and the answer is {brief(answer)}")
    await client.alive()
