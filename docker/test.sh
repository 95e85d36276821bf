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

# What is still there after `docker/cluster remove`, which takes everything away.
leftovers() {
    local folder label=label=com.docker.compose.project=$YGS_PROJECT
    for folder in "$YGS_ENGINE/data" "$YGS_DOCKER_STATE"; do [ ! -e "$folder" ] || echo "$folder"; done
    engine_find || return 0
    docker ps -aq --filter "$label"
    docker volume ls -q --filter "$label"
    docker network ls -q --filter "$label"
    docker image ls -q "$YGS_PROJECT-*"
}

cleanup() {
    local code=$? left
    trap - EXIT INT TERM
    "$here/cluster" remove >"$room/remove.log" 2>&1 || { cat "$room/remove.log"; [ "$code" != 0 ] || code=1; }
    left=$(leftovers) || left='an engine that cannot be asked'
    [ -z "$left" ] || { echo "docker/cluster remove left: $left"; [ "$code" != 0 ] || code=1; }
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
