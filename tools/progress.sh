#!/usr/bin/env bash
# Run a command that takes long, quietly and with a sign of life:  progress.sh LABEL COMMAND...
# Its output is shown where it fails (the last lines), its exit code is passed on. On a terminal seconds count up,
# elsewhere a dot stands for ten seconds.
set -euo pipefail
label=$1
shift
log=$(mktemp)
"$@" >"$log" 2>&1 </dev/null &
pid=$!
trap 'rm -f "$log"' EXIT
trap 'kill "$pid" 2>/dev/null; exit 130' INT TERM

began=$SECONDS
shown=0
printf '==> %s ' "$label"
while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
    passed=$((SECONDS - began))
    if [ -t 1 ]; then
        [ "$passed" = "$shown" ] || printf '\r==> %s (%s s) ' "$label" "$passed"
        shown=$passed
    elif [ $((passed / 10)) -gt "$shown" ]; then
        printf '.'
        shown=$((passed / 10))
    fi
done
code=0
wait "$pid" || code=$?
if [ "$code" = 0 ]; then
    printf '%s s\n' "$((SECONDS - began))"
else
    printf 'failed (exit code %s)\n' "$code"
    tail -n 40 "$log" >&2
fi
exit "$code"
