"""The program as it begins: what comes before the command line is read."""

import sys

import pytest

from acp_server.__main__ import main


class _Interrupting:
    """Has Ctrl-C come while one module is imported."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(self, name: str, *_: object) -> None:
        if name == self._name:
            raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["acp_server.apps.cli", "acp_server.apps.cli.commands"])
def test_an_interrupt_while_the_program_loads_is_exit_code_130(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "meta_path", [_Interrupting(name), *sys.meta_path])
    monkeypatch.setattr(sys, "argv", ["acp-server", "chat"])
    assert main() == 130
