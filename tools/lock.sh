#!/usr/bin/env bash
# Pin what setup.cfg allows, with hashes and without the address of any index: which index serves the files is the
# reader's setting, the hashes say what they must be. runtime.lock is the part of dev.lock that production needs, spark.lock
# what `make spark` installs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CUSTOM_COMPILE_COMMAND="make lock"
compile() {
    .venv/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-build-isolation \
        --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options "$@"
}
compile --extra dev --output-file requirements/dev.lock setup.cfg
compile --extra archive --constraint requirements/dev.lock --output-file requirements/runtime.lock setup.cfg
compile --output-file requirements/spark.lock requirements/spark.in
grep -n -e '://' requirements/*.lock && { echo "a lock file names an address" >&2; exit 1; }
echo "locked $(grep -c '==' requirements/dev.lock) packages, $(grep -c '==' requirements/runtime.lock) of them for production"
