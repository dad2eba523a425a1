#!/usr/bin/env bash
# `make test-debian`: what a new user does, on Debian of several ages and its own Python (3.11, 3.13, 3.14), each in a
# folder that debootstrap makes and that is removed at the end. It needs root, debootstrap and about 1 GB.
#   run.sh [SUITE...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
root=../../..
[ $# -gt 0 ] || set -- bookworm trixie sid
command -v debootstrap >/dev/null || { echo 'test-debian: debootstrap is not here' >&2; exit 1; }
[ "$(id -u)" = 0 ] || { echo 'test-debian: only root may make a system in a folder' >&2; exit 1; }

# The mirror of this machine, if it is a Debian.
mirror=$(sed -n 's/^URIs: *//p; s/^deb \(\[[^]]*\] \)\?\([^ ]*\) .*/\2/p' \
    /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null | head -1 || true)
place=$(mktemp -d)
trap 'rm -rf --one-file-system "$place"' EXIT

for suite in "$@"; do
    system=$place/$suite
    printf '== %s\n' "$suite"
    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates "$suite" "$system" $mirror \
        >"$place/log" 2>&1 || { tail -20 "$place/log"; exit 1; }
    # Where this machine reaches its index by a certificate of its own, so does the system.
    cp /etc/ssl/certs/ca-certificates.crt "$system/etc/ssl/certs/"
    cp /etc/resolv.conf /etc/hosts "$system/etc/" 2>/dev/null || true
    mkdir "$system/dist"
    cp "$root"/dist/*.tar.gz "$system/dist/"
    cp steps.sh "$system/"
    chroot "$system" /usr/bin/env -i HOME=/root LANG=C.UTF-8 PATH=/usr/bin:/bin \
        PIP_CERT=/etc/ssl/certs/ca-certificates.crt PIP_DISABLE_PIP_VERSION_CHECK=1 \
        ${https_proxy:+https_proxy="$https_proxy"} ${PIP_INDEX_URL:+PIP_INDEX_URL="$PIP_INDEX_URL"} \
        bash /steps.sh /dist /root/trial
    rm -rf --one-file-system "$system"
done
