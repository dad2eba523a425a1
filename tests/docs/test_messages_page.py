"""The page of messages is what its script makes of the code, and has the templates of each kind."""

import ast
import importlib.util
import subprocess
import sys
from types import ModuleType

import pytest

from .blocks import DOCS

TEXT = (DOCS / "messages.md").read_text("utf-8")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("messages_page", DOCS / "messages_page.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_is_not_stale() -> None:
    command = [sys.executable, str(DOCS / "messages_page.py"), "--check"]
    assert subprocess.run(command, check=False).returncode == 0, "make schema writes it"


def test_it_can_be_read_at_a_sitting() -> None:
    assert 400 < TEXT.count("\n| `") < 1000
    assert len(TEXT.split()) < 12_000


@pytest.mark.parametrize(
    ("code", "kind", "template"),
    [
        ('logger.warning("lost %s of %.1f", name, self._size)', "log: warning", "lost {name} of {size}"),
        ('logger.exception("it failed")', "log: error", "it failed"),
        ('warnings.warn(f"{escape(path)} is old", stacklevel=2)', "warning", "{path} is old"),
        ('raise UsageError(f"no file {path!r}: " + REASON)', "UsageError", "no file {path}: it is gone"),
        ('raise UsageError("one file" if one else f"{len(files)} files are")', "UsageError", "one file"),
        ('raise Mine(f"{type(value).__name__} is wrong")', "Mine", "{type} is wrong"),
        ('raise InvalidParams(data="it is data", message=WHY or "it is wrong")', "InvalidParams", "it is wrong"),
    ],
)
def test_templates_are_found(script: ModuleType, code: str, kind: str, template: str) -> None:
    tree = ast.parse(f'REASON: Final = "it is gone"\nclass Mine(UsageError): ...\n{code}')
    errors = script._exceptions(
        [tree, ast.parse("class UsageError(AcpError): ...\nclass InvalidParams(AcpError): ...")]
    )
    assert (kind, template) in set(script._entries(tree, errors, script._constants(tree)))


@pytest.mark.parametrize(
    "code", ['raise CapabilityMissing("session/load")', "raise KeyError(name)", 'print("it is old")']
)
def test_other_texts_are_no_templates(script: ModuleType, code: str) -> None:
    assert not list(script._entries(ast.parse(code), {"CapabilityMissing", "KeyError"}, {}))
