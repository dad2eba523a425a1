"""How large a regular expression becomes when it is compiled, judged before it is."""

import pytest

from acp_server.apps.coder.roots import Refusal
from acp_server.apps.coder.search import LARGEST_PATTERN, compile_pattern
from acp_server.tools.json_schema import SchemaParameters
from acp_server.tools.patterns import unrolled_length
from acp_server.tools.schema_bounds import _LARGEST

DEPTH = 14
"""Groups in groups whose repeats take half a second to compile: each further one takes twice as long."""

REPEATS = [")+", ")+?", ")++", "){1,2}", "){2}", "){2,}", "){ 1 , 3 }", "+)+", "|b)+", "b*)+", ")(?#why)+", ")*+)+"]


def nested(repeat: str, flags: str = "") -> str:
    return flags + "(" * (DEPTH * repeat.count(")")) + "a" + repeat * DEPTH


@pytest.mark.parametrize("flags", ["", "(?x)", "(?V1)"])
@pytest.mark.parametrize("repeat", REPEATS)
def test_groups_in_groups_that_repeat_are_refused_and_not_compiled(repeat: str, flags: str) -> None:
    with pytest.raises(Refusal, match="has too many repetitions"):
        compile_pattern(nested(repeat, flags))


@pytest.mark.parametrize(
    "pattern",
    [
        "(" * 40 + "a" + ")*" * 40,
        "(" * 40 + "a" + ")?" * 40,
        r"^(?:[a-z0-9]+(?:-[a-z0-9]+)*\.)+[a-z]{2,}$",
        r"((\d+)\.)+(\d+)(-(\w+(\.\w+)*))?(\+(\w+(\.\w+)*))?",
        "a+" * 5_000,
        "(?:ab)+" * 1_000,
        r"(((a+)+b)+c){2}",
        "(a|b){1000}",
    ],
)
def test_honest_patterns_are_compiled(pattern: str) -> None:
    assert unrolled_length(pattern) <= LARGEST_PATTERN == _LARGEST
    compile_pattern(pattern)


@pytest.mark.parametrize("repeat", REPEATS)
def test_a_schema_with_such_a_pattern_lets_everything_pass(repeat: str) -> None:
    def tool(arguments: dict[str, str]) -> None:
        """Take them."""

    schema = {"type": "object", "properties": {"name": {"type": "string", "pattern": nested(repeat)}}}
    assert SchemaParameters(tool, schema).read({"name": "z"}) == {"arguments": {"name": "z"}}
