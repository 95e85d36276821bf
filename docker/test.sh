#!/usr/bin/env bash
# Build the cluster in containers, run its tests, remove all of it:  test.sh [--if-possible] [PYTEST_ARGUMENT]...
# Beside a cluster of the user's own: project, network, folders and, where none runs already, engine are the tests'.
# Where no engine can be started it says why and fails; with --if-possible it says so and does not fail.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export YGS_ROOT=${here%/docker}
cd "$YGS_ROOT"
optional=
[ "${1:-}" != --if-possible ] || { optional=1; shift; }

room=$(mktemp -d -p "${TMPDIR:-/var/tmp}" ygs-docker.XXXXXX)
export YGS_ENGINE=$room/engine YGS_DOCKER_STATE=$room/state YGS_PROJECT=ygs-test YGS_SUBNET=10.213.48
# shellcheck source-path=SCRIPTDIR
. "$here/engine.sh"

cleanup() {
    local code=$?
    trap - EXIT INT TERM
    "$here/cluster" remove >"$room/remove.log" 2>&1 || { cat "$room/remove.log"; [ "$code" != 0 ] || code=1; }
    engine_remove || [ "$code" != 0 ] || code=1
    rm -rf --one-file-system "$room"
    exit "$code"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

if ! engine_start 2>"$room/why"; then
    echo "The tests of the cluster in containers did not run, because $(tr '\n' ' ' <"$room/why")"
    [ -n "$optional" ]
    exit
fi
YGS_TEST_DOCKER=1 "${PYTHON:-.venv/bin/python}" -m pytest -p no:cacheprovider -m docker tests/docker "$@"
