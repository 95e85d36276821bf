#!/usr/bin/env bash
# tools/test.sh PYTHON VERSION TOO: run every test, in parts of which two go on side by side, since those on real clusters
# mostly wait; who is done with a part takes the next. TOO: the Hadoop on which some of the tests run as well.
set -euo pipefail
python=$1 version=$2 too=$3
log=build/tests-beside.log taken=build/tests-taken
mapfile -t elsewhere < <(grep -rl --include='test_*.py' 'mark\.real' tests | grep -v '^tests/real/')

# The longest first.
parts=(clusters plain clusters_too clusters_elsewhere)
clusters() { tests tests/real -m real --hadoop "$version"; }
plain() { tests -m "not real"; }
clusters_too() { tests tests/real -m "real and both" --hadoop "$too"; }
clusters_elsewhere() { tests "${elsewhere[@]}" -m real; }

# A shell that waits for a background process ends it when it is told to end itself.
tests() {
    "$python" -m pytest -p no:cacheprovider "$@" &
    running=$!
    wait "$running"
}

# Run parts until none is left that nobody has taken. Making a folder succeeds for one alone.
work() {
    local part code=0 running=
    trap 'kill "$running" 2>/dev/null; exit 1' TERM INT
    for part in "${parts[@]}"; do
        mkdir "$taken/$part" 2>/dev/null || continue
        "$part" || code=1
    done
    return "$code"
}

rm -rf "$taken"
mkdir -p "$taken"
work >"$log" 2>&1 &
other=$!
trap 'kill "$other" 2>/dev/null || true' EXIT
echo "tests on Hadoop $version; others run beside them: $log"
code=0 code_beside=0
work || code=$?
wait "$other" || code_beside=$?
trap - EXIT
cat "$log"
[[ $code != 0 ]] || code=$code_beside
exit "$code"
