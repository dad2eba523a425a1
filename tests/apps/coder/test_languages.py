"""Languages by the names of files."""

import pytest

from acp_server.apps.coder import scan as languages
from acp_server.apps.coder.scan import language_of


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("a.py", "Python"),
        ("/somewhere/MAIN.PY", "Python"),
        ("x.test.tsx", "TypeScript"),
        ("Makefile", "Makefile"),
        ("Dockerfile", "Dockerfile"),
        ("CMakeLists.txt", "CMake"),
        ("notes.txt", "Text"),
        (".bashrc", "Shell"),
        ("uv.lock", "TOML"),
        ("archive.tar.gz", "Other"),
        ("LICENSE", "Other"),
        (".gitignore", "Other"),
        ("", "Other"),
    ],
)
def test_a_name_tells_the_language(name: str, language: str) -> None:
    assert language_of(name) == language


@pytest.mark.parametrize("table", [languages._EXTENSIONS, languages._NAMES])
def test_no_ending_and_no_name_has_two_languages(table: str) -> None:
    lines = [line.partition(": ") for line in table.strip().splitlines()]
    words = [word for _, _, rest in lines for word in rest.split()]
    assert all(language and rest for language, _, rest in lines)
    assert len(words) == len(set(words))
    assert [language for language, _, _ in lines] == sorted((language for language, _, _ in lines), key=str.lower)
