#!/usr/bin/env bash
# Make the base image TAG from Debian packages alone, and write the program of Debian's Prometheus beside it:  base.sh TAG PROMETHEUS
# The root is made by mmdebstrap and kept as a tar in the cache, by the hash of what goes into it. YGS_BASE_IMAGE names
# any Debian 12 image instead: the Dockerfile installs what that lacks.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tag=$1 prometheus=$2
suite=bookworm
cache=${YGS_CACHE:-$HOME/.cache/yarn-gpu-sched}/docker
whole=(
    --variant=minbase
    # No manual pages, translations or manuals, licences stay. The JRE links its own pages all the same.
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*'
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright'
    --essential-hook='mkdir -p "$1/usr/share/man/man1"'
    --include="$(paste -sd, "$here/packages.txt")"
)
unpacked=(--variant=extract --include=prometheus)

# kept NAME OPTION...: the root that mmdebstrap makes with these options, as a tar in the cache; prints where.
kept() {
    local name=$1 tar
    shift
    tar=$cache/$name-$(printf '%s\n' "$suite" "$@" | sha256sum | cut -c1-12).tar
    (
        flock 9
        [ ! -s "$tar" ] || exit 0
        trap 'rm -f "$tar.part"' EXIT
        mmdebstrap --quiet --mode=root --format=tar "$@" "$suite" "$tar.part" >&2
        mv "$tar.part" "$tar"
    ) 9>"$tar.lock"
    echo "$tar"
}

mkdir -p "$cache"
if [ -n "${YGS_BASE_IMAGE:-}" ]; then
    docker tag "$YGS_BASE_IMAGE" "$tag"
else
    tar=$(kept base "${whole[@]}")
    # As it is, if it is this one already: an image that is imported anew would have every layer above it built anew.
    found=$(docker image inspect -f '{{index .Config.Labels "tar"}}' "$tag" 2>/dev/null || true)
    [ "$found" = "${tar##*/}" ] || docker import --change "LABEL tar=${tar##*/}" "$tar" "$tag" >/dev/null
fi
tar=$(kept prometheus "${unpacked[@]}")
tar -xf "$tar" -O ./usr/bin/prometheus >"$prometheus"
chmod 755 "$prometheus"
