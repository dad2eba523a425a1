"""The picture of a short conversation."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from acp_server.agent.record import read_recording
from acp_server.apps.cli import main
from acp_server.apps.cli.trace.conversation import Conversation
from acp_server.apps.cli.trace.export import MOST, picture
from acp_server.errors import UsageError

from .recordings import Recording, cancelled_turn

PICTURES = Path(__file__).parents[4] / "docs" / "pictures"
SVG = "{http://www.w3.org/2000/svg}"


def drawn(conversation: Conversation) -> ET.Element:
    return ET.fromstring(picture(conversation))


def texts(svg: ET.Element) -> list[str]:
    return [element.text or "" for element in svg.iter(f"{SVG}text")]


def bars(svg: ET.Element, style: str) -> list[tuple[float, float]]:
    """Where the bars of a kind begin and end."""
    found = [bar for bar in svg.iter(f"{SVG}rect") if bar.get("class") == style]
    return [(float(bar.get("x", "")), float(bar.get("x", "")) + float(bar.get("width", ""))) for bar in found]


def test_each_span_has_a_name_and_a_bar_and_a_cancel_is_one_line_through_what_it_reached() -> None:
    conversation = cancelled_turn().conversation
    svg = drawn(conversation)
    names = [element for element in svg.iter(f"{SVG}text") if element.get("class") == "name"]
    assert len(names) == len(conversation.spans)
    own = [cut for cut in conversation.cuts if cut.because is None]
    lines = list(svg.iter(f"{SVG}line"))
    assert len(lines) == len(own) == 1
    reached = [span.number for span in own[0].reached]
    rows = (float(lines[0].get("y2", "")) - float(lines[0].get("y1", ""))) / 24
    assert round(rows) == max(reached) - min(reached) + 1
    assert len(bars(svg, "after")) == len(reached)


def test_the_hatched_part_goes_from_the_cancel_to_the_answer() -> None:
    talk = Recording()
    talk.prompt(1)
    talk.wait(0.997)
    talk.cancel()
    talk.wait(0.999)
    talk.answer("out", 1, {"stopReason": "cancelled"})
    svg = drawn(talk.conversation)
    ((begin, middle),) = bars(svg, "turn")
    ((cut, end),) = bars(svg, "after")
    assert cut == middle == pytest.approx((begin + end) / 2, abs=1)
    assert "answered after 1.00 s" in texts(svg)
    assert "session/cancel" in texts(svg)


def test_what_has_no_answer_says_so_and_goes_on_to_the_end() -> None:
    talk = Recording()
    talk.prompt(1)
    talk.cancel()
    talk.wait(1)
    talk.update()
    svg = drawn(talk.conversation)
    assert "never answered" in texts(svg)
    assert bars(svg, "after")[0][1] == bars(svg, "session")[0][1]


def test_what_a_recording_says_is_text_and_nothing_else() -> None:
    talk = Recording()
    talk.prompt(1, "</text><script>alert(1)</script>\x1b[2J\x00 & more")
    svg = drawn(talk.conversation)
    assert not list(svg.iter(f"{SVG}script"))
    assert any("</text><script>" in text for text in texts(svg))


def test_a_recording_without_a_message_has_a_picture() -> None:
    assert texts(drawn(Conversation([]))) == ["0", "0.0 ms", "connection"]


def test_a_long_conversation_has_no_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    talk = Recording()
    for id in range(MOST):
        talk.ask("in", id, "initialize")
    with pytest.raises(UsageError, match="an image has at most 200 rows"):
        picture(talk.conversation)
    assert main(["trace", str(talk.write(tmp_path / "it")), "--svg", str(tmp_path / "it.svg")]) == 2
    assert not (tmp_path / "it.svg").exists()


def test_the_command_writes_the_picture_and_says_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = cancelled_turn().write(tmp_path / "it")
    assert main(["trace", str(file), "--svg", str(tmp_path / "it.svg")]) == 0
    assert capsys.readouterr().out == ""
    assert (tmp_path / "it.svg").read_text() == picture(Conversation(read_recording(file).entries))


@pytest.mark.parametrize("recording", sorted(PICTURES.glob("*.ndjson")), ids=lambda path: path.stem)
def test_the_pictures_of_the_guides_are_those_of_their_recordings(recording: Path) -> None:
    conversation = Conversation(read_recording(recording).entries)
    assert recording.with_suffix(".svg").read_text() == picture(conversation)
    assert f"pictures/{recording.stem}.svg" in (PICTURES.parent / "cancellation.md").read_text()
