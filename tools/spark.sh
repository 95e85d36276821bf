#!/usr/bin/env bash
# Print the folder of Spark's Python package; with `fetch`, install it there first if it is not there yet. The folder's name
# stands for the lock file: another lock is another folder, and each is there whole or not at all.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cache=${YGS_CACHE:-$HOME/.cache/yarn-gpu-sched}
folder=$cache/spark-$(sha256sum requirements/spark.lock | cut -c1-8)
if [ "${1:-}" = fetch ] && [ ! -d "$folder" ]; then
    mkdir -p "$cache"
    exec 9>"$folder.lock"
    flock 9
    part=$(mktemp -d "$folder.part-XXXXXX")
    trap 'rm -rf "$part"' EXIT
    # The wheel is made of the pinned source by the environment's own pinned setuptools.
    [ -d "$folder" ] || {
        .venv/bin/python -m pip --disable-pip-version-check install --no-deps --require-hashes --no-build-isolation \
            --no-cache-dir --target "$part/spark" -r requirements/spark.lock >&2
        mv -T "$part/spark" "$folder"
    }
fi
echo "$folder"
