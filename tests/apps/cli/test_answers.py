"""What the user types at a question: an answer, nothing, or text for later."""

import anyio
import pytest
from prompt_toolkit import PromptSession
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from acp_server.apps.cli.chat.answers import Answers
from acp_server.apps.cli.chat.typed import OpenQuestion, TypedInput
from acp_server.schema import OwnWord, PermissionOption


def options(*kinds: str) -> list[PermissionOption]:
    return [PermissionOption(option_id=str(n), name=kind, kind=OwnWord(kind)) for n, kind in enumerate(kinds)]


FOUR = Answers.of(options("allow_once", "allow_always", "reject_once", "reject_always"))


def test_y_and_n_are_the_options_that_decide_once() -> None:
    assert [FOUR.read(text) for text in ("y", " YES ", "n", "no", "2", " 4 ")] == [0, 0, 2, 2, 1, 3]
    assert FOUR.hint() == "    1-4, y, n, or Enter for none: "


def test_where_two_options_allow_once_y_is_no_answer() -> None:
    answers = Answers.of(options("allow_once", "allow_once", "reject_once"))
    assert [answers.read(text) for text in ("y", "n", "1")] == [None, 2, 0]
    assert answers.hint(is_cut=True) == "    1-3, n, a to see all of it, or Enter for none: "


def test_what_decides_for_good_has_no_letter() -> None:
    answers = Answers.of(options("allow_always", "reject_always", "of an extension"))
    assert [answers.read(text) for text in ("y", "n")] == [None, None]
    assert Answers(1).hint(may_be_none=False) == "    1: "


@pytest.mark.parametrize("text", ["", "0", "5", "01", "-1", "x", "ye", "yes please", "²", "\uff11"])
def test_other_texts_are_no_answers(text: str) -> None:
    assert FOUR.read(text) is None


def typed(question: OpenQuestion, keys: str) -> str:
    return "".join(key for key in keys if question.takes(key))


def test_keys_that_begin_an_answer_or_a_number_are_its_answer() -> None:
    question = OpenQuestion(FOUR)
    assert typed(question, "yo") == "y"
    question.typed = ""
    assert typed(question, "12345") == "1234"


@pytest.mark.parametrize(
    ("text", "may_be_none", "decided"),
    [("y", True, True), ("", True, True), ("", False, False), ("9", True, False), ("ye", True, False)],
)
def test_only_an_answer_or_nothing_at_all_decides(text: str, may_be_none: bool, decided: bool) -> None:
    question = OpenQuestion(FOUR)
    question.take_keys()
    question.typed = text
    question.enter(may_be_none=may_be_none)
    assert question.is_answered is decided
    assert decided or question.remark == "    That is not an answer.\n"


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize(
    ("keys", "prompts", "remark"),
    [
        ("y\r", [], "    That was typed before the question could be read. Answer again.\n"),
        ("2\r", [], "    That was typed before the question could be read. Answer again.\n"),
        ("and then\r", ["and then"], ""),
    ],
)
async def test_an_answer_before_the_question_could_be_read_is_neither_its_answer_nor_a_prompt(
    keys: str, prompts: list[str], remark: str
) -> None:
    given = TypedInput()
    question = given.ask(FOUR)
    with create_pipe_input() as pipe:
        session: PromptSession[str] = PromptSession(key_bindings=given.bindings(), input=pipe, output=DummyOutput())
        seen = anyio.Event()
        session.default_buffer.on_text_changed += lambda buffer: seen.set() if buffer.text == "#" else None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.prompt_async)
            pipe.send_text(keys + "#")
            await seen.wait()
            tasks.cancel_scope.cancel()
    assert (list(given.submitted), question.remark, question.is_answered) == (prompts, remark, False)
