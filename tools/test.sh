#!/usr/bin/env bash
# tools/test.sh PYTHON VERSION TOO: run every test, in two processes side by side, since those on real clusters mostly wait.
# The first runs those on Hadoop VERSION; the other all that need no cluster, then those that are to run on Hadoop TOO as well.
set -euo pipefail
python=$1 version=$2 too=$3
log=build/tests-beside.log

# A shell that waits for a background process ends it when it is told to end itself.
pytest_beside() {
    "$python" -m pytest -p no:cacheprovider "$@" &
    running=$!
    wait "$running"
}

beside() {
    local code=0 running=
    trap 'kill "$running" 2>/dev/null; exit 1' TERM
    pytest_beside -m "not real" || code=1
    pytest_beside -m "real and both" --hadoop "$too" || code=1
    return "$code"
}

mkdir -p build
beside >"$log" 2>&1 &
other=$!
trap 'kill "$other" 2>/dev/null || true' EXIT
echo "tests on Hadoop $version; the others run beside them: $log"
code=0 code_beside=0
"$python" -m pytest -m real --hadoop "$version" || code=$?
wait "$other" || code_beside=$?
trap - EXIT
cat "$log"
[[ $code != 0 ]] || code=$code_beside
exit "$code"
