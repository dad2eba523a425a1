#!/usr/bin/env bash
# What a new user does, from the sdists alone: steps.sh DIST FOLDER. It needs python3 with its venv module, and a package
# index; it ends with a non-zero status at the first step that fails.
set -euo pipefail
dist=$(realpath "$1")
mkdir -p "$2"
cd "$2"
python3 --version
python3 -m venv env
PATH=$PWD/env/bin:$PATH

step() {
    local begin=$SECONDS
    "${@:2}" >step.log 2>&1 || { cat step.log; printf 'FAILED: %s\n' "$1"; exit 1; }
    printf '%s: ok, %s s\n' "$1" "$((SECONDS - begin))"
}

# pip builds the wheel from the sdist.
step 'install the runtime from its sdist' pip install "$(echo "$dist"/acp_server-*.tar.gz)[chat]"
step 'install the judge from its sdist' pip install "$(echo "$dist"/acp_conformance-*.tar.gz)" pytest
step 'acp-server new' acp-server new my-agent
cd my-agent
step 'its tests' python -m pytest
step 'acp-server doctor' acp-server doctor my_agent.py
step 'acp-server chat -p' acp-server chat -p 'count pyproject.toml' my_agent.py
grep -q 'pyproject.toml has [0-9]* lines' step.log
step 'the judge' acp-conformance agent -- acp-server serve my_agent.py
grep 'passed' step.log | tail -1
