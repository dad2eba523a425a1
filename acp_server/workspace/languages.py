"""Which language a file is written in, judged by its name. It opens no files."""

from __future__ import annotations

import os

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
    """The language of a file with this name or path, "Other" if it is not known."""
    name = os.path.basename(name).lower()
    return _BY_NAME.get(name) or _BY_EXTENSION.get(os.path.splitext(name)[1]) or OTHER


def _table(text: str, prefix: str) -> dict[str, str]:
    lines = (line.partition(": ") for line in text.strip().splitlines())
    return {prefix + word: language for language, _, words in lines for word in words.split()}


_BY_EXTENSION = _table(_EXTENSIONS, ".")
_BY_NAME = _table(_NAMES, "")
