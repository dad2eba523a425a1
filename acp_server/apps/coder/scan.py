"""Counts a project: files, lines by language, the largest files, open tasks.

A `Scan` has two plain generators for a worker thread. Its counts can be read at any time. It does not decide how they
are shown. The language of a file is determined by its name.
"""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Generator
from dataclasses import dataclass
from typing import NamedTuple

from acp_server.apps.coder.read import BinaryFile, Block, Skipped, blocks, reason_of
from acp_server.apps.coder.roots import Roots, printable
from acp_server.apps.coder.walk import files_below

_EXTENSIONS = """
Ada: adb ads
Assembly: asm s
Astro: astro
AWK: awk
Batch: bat cmd
C: c h
C#: cs csx
C++: c++ cc cpp cxx h++ hh hpp hxx ino ipp tpp
Clojure: clj cljc cljs edn
CMake: cmake
COBOL: cbl cob
CoffeeScript: coffee
Common Lisp: lisp lsp
Crystal: cr
CSS: css
CUDA: cu cuh
Cython: pxd pxi pyx
D: d
Dart: dart
Dockerfile: dockerfile
Elixir: ex exs
Elm: elm
Emacs Lisp: el
Erlang: erl hrl
F#: fs fsi fsx
Fish: fish
Fortran: f f03 f08 f77 f90 f95 for
GLSL: frag glsl vert
Go: go
GraphQL: gql graphql
Groovy: gradle groovy
Haskell: hs lhs
HCL: hcl tf tfvars
HTML: htm html xhtml
Java: java
JavaScript: cjs js jsx mjs
Jinja: j2 jinja jinja2
JSON: geojson json json5 jsonc jsonl ndjson webmanifest
Julia: jl
Jupyter: ipynb
Just: just
Kotlin: kt kts
Less: less
Lua: lua
Makefile: mak mk
Markdown: markdown md mdown mdx
MATLAB: mlx
Meson: meson
Nim: nim nims
Nix: nix
Objective-C: m mm
OCaml: ml mli
Pascal: dpr lpr pas pp
Perl: pl pm pod
PHP: php phtml
PowerShell: ps1 psd1 psm1
Prolog: pro
Protocol Buffers: proto
Pug: pug
Python: py pyi pyw
R: r rmd
Racket: rkt
Raku: p6 raku rakumod
reStructuredText: rst
Ruby: erb gemspec rake rb ru
Rust: rs
Sass: sass scss
Scala: sbt sc scala
Scheme: scm ss
Shell: bash ksh sh zsh
Solidity: sol
SQL: sql
Starlark: bzl star
Svelte: svelte
SVG: svg
Swift: swift
SystemVerilog: sv svh
Tcl: tcl
TeX: bib cls latex sty tex
Text: txt
Thrift: thrift
TOML: toml
TypeScript: cts mts ts tsx
Typst: typ
V: v
Vala: vala
VHDL: vhd vhdl
Vim script: vim
Visual Basic: bas vb vbs
Vue: vue
WebAssembly: wat wast
XML: plist xml xsd xsl xslt
YAML: yaml yml
Zig: zig
"""

_NAMES = """
CMake: cmakelists.txt
Dockerfile: containerfile dockerfile
Go: go.mod go.sum
Groovy: jenkinsfile
Just: justfile
Makefile: gnumakefile makefile
Meson: meson.build meson_options.txt
Ruby: brewfile gemfile rakefile vagrantfile
Shell: .bash_profile .bashrc .profile .zshrc
Starlark: build build.bazel workspace workspace.bazel
TOML: cargo.lock pipfile poetry.lock uv.lock
"""

OTHER = "Other"


def language_of(name: str) -> str:
    """Return the language of a file with this name or path, or "Other" if it is unknown."""
    name = os.path.basename(name).lower()
    return _BY_NAME.get(name) or _BY_EXTENSION.get(os.path.splitext(name)[1]) or OTHER


def _table(text: str, prefix: str) -> dict[str, str]:
    lines = (line.partition(": ") for line in text.strip().splitlines())
    return {prefix + word: language for language, _, words in lines for word in words.split()}


_BY_EXTENSION = _table(_EXTENSIONS, ".")
_BY_NAME = _table(_NAMES, "")


LARGEST = 10
LISTED_TODOS = 200
SHOWN_CHARACTERS = 160

# Separate patterns that begin with letters: they are found twenty times as fast as alternatives or a word boundary.
_WORDS = [re.compile(rf"{word}(?<!\w{word})\b(?!-)") for word in ("TODO", "FIXME")]
# The word counts only after the beginning of a comment in a common language, not in the middle of a sentence or a
# string.
_COMMENT = re.compile(r"#|(?<!:)//|/\*|^\s*\*|(?:^|\s)(?:--|;|%|REM\b)|<!--|\{-|\(\*|^\s*[\"']{3}")


class Todo(NamedTuple):
    """A comment with an open task.

    Attributes:
        path: the file, absolute.
        line: counted from 1.
        text: the comment beginning with `TODO` or `FIXME`, at most 160 characters of it, fit to be shown.
    """

    path: str
    line: int
    text: str


@dataclass(slots=True)
class Tally:
    """The counts of one language."""

    files: int = 0
    lines: int = 0


class Scan:
    """One scan. Run `list_files` first, then `read_files`. Its counts are consistent at any time.

    Args:
     roots: the directories of the session.
     path: a file or a directory as the user typed it; by default all directories of the session are scanned.

    Attributes:
     files: the number of files.
     bytes: the total size of the files.
     listed: whether all files were found.
     files_read: the number of files that were read.
     binary_files: how many of the read files are not text; they have no lines and no language.
     lines: the number of lines of the text files.
     languages: the counts by language.
     todos: the first 200 comments that say TODO or FIXME.
     todo_count: the number of such comments.
     skipped: files and directories that could not be read.
     complete: whether everything was counted, except for `skipped`.
    """

    def __init__(self, roots: Roots, path: str | None = None) -> None:
        self._roots = roots
        self._path = path
        self._sizes: dict[str, int] = {}
        self.bytes: int = 0
        self.listed = False
        self.files_read: int = 0
        self.binary_files: int = 0
        self.lines: int = 0
        self.languages: dict[str, Tally] = {}
        self.todos: list[Todo] = []
        self.todo_count: int = 0
        self.skipped: list[Skipped] = []
        self.complete = False

    @property
    def files(self) -> int:
        """The number of files."""
        return len(self._sizes)

    @property
    def largest(self) -> list[tuple[int, str]]:
        """Return the ten largest files, the largest first, as sizes in bytes and absolute paths."""
        sizes = ((size, path) for path, size in self._sizes.items())
        return heapq.nsmallest(LARGEST, sizes, key=lambda file: (-file[0], file[1]))

    def list_files(self) -> Generator[None]:
        """Find the files and their sizes.

        Raises:
            Refusal: the path leads out of the directories of the session, or does not exist.
        """
        for item in files_below(self._roots, self._path):
            if isinstance(item, str):
                try:
                    size = os.stat(item, follow_symlinks=False).st_size
                except OSError as error:
                    self.skipped.append(Skipped(item, reason_of(error)))
                else:
                    self._sizes[item] = size
                    self.bytes += size
            elif item is not None:
                self.skipped.append(item)
            yield
        self.listed: bool = True

    def read_files(self) -> Generator[Todo | None]:
        """Read the files that `list_files` found, in the same order. Yields open tasks as they are found."""
        for path in self._sizes:
            yield from self._read_file(path)
            yield None
        self.complete: bool = self.listed

    def _read_file(self, path: str) -> Generator[Todo | None]:
        lines = 0
        try:
            for block in blocks(path):
                for todo in _todos(path, lines + 1, block):
                    self.todo_count += 1
                    if len(self.todos) < LISTED_TODOS:
                        self.todos.append(todo)
                        yield todo
                lines += block.newlines
                yield None
        except BinaryFile:
            self.binary_files += 1
        except OSError as error:
            self.skipped.append(Skipped(path, reason_of(error)))
            return
        else:
            tally = self.languages.setdefault(language_of(path), Tally())
            tally.files += 1
            tally.lines += lines
            self.lines += lines
        self.files_read += 1


def _todos(path: str, line: int, block: Block) -> Generator[Todo]:
    """Yield the first open task of each line. A line that is longer than a block is skipped."""
    if block.continues or block.unfinished:
        return
    text, counted, end = block.text, 0, -1
    for word in heapq.merge(*(pattern.finditer(text) for pattern in _WORDS), key=re.Match[str].start):
        if word.start() < end:
            continue
        begin = text.rfind("\n", 0, word.start()) + 1
        end = text.find("\n", word.end())
        end = len(text) if end < 0 else end
        before = text[begin : word.start()]
        if _COMMENT.search(before) or (not before.strip() and text[word.end() : word.end() + 1] in (":", "(")):
            line += text.count("\n", counted, begin)
            counted = begin
            said = text[word.start() : min(end, word.start() + SHOWN_CHARACTERS)]
            yield Todo(path, line, printable(said.rstrip()))
