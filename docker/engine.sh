#!/usr/bin/env bash
# The container engine: one that runs already, else one of our own with its own folders. To be sourced.
#   engine_start   make DOCKER_HOST name an engine that answers; start one where none does and that is possible
#   engine_stop    end the engine that engine_start started, and what it left behind; its images and volumes stay
#   engine_remove  the same, and remove its folders
# Variables: YGS_ENGINE (folder of our own engine), YGS_APT=0 (install nothing).

YGS_ENGINE=${YGS_ENGINE:-/var/tmp/ygs-engine-$UID}
engine_socket=unix://$YGS_ENGINE/docker.sock
ENGINE_S_MAX=60

engine_answers() { docker info >/dev/null 2>&1; }

engine_ours() { [ "${DOCKER_HOST:-}" = "$engine_socket" ]; }

# The process of our own engine, or nothing. A number is believed only while it is a dockerd of this folder.
engine_pid() {
    local pid
    pid=$(cat "$YGS_ENGINE/dockerd.pid" 2>/dev/null) || return 0
    if tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null | grep -qxF "$YGS_ENGINE/dockerd.pid"; then echo "$pid"; fi
}

# Point to an engine that answers, ours or the machine's, without starting one.
engine_find() {
    if command -v docker >/dev/null; then
        if [ -n "${DOCKER_HOST:-}" ] && engine_answers; then return 0; fi
        if [ -n "$(engine_pid)" ]; then
            export DOCKER_HOST=$engine_socket
            if engine_answers; then return 0; fi
        fi
        unset DOCKER_HOST
        if engine_answers; then return 0; fi
    fi
    return 1
}

engine_start() {
    if engine_find; then return 0; fi
    [ "$(id -u)" = 0 ] || { echo "no container engine answers, and only root can start one" >&2; return 1; }
    "$YGS_ROOT/tools/prerequisites.sh" engine || return 1
    rm -f "$YGS_ENGINE/dockerd.pid" "$YGS_ENGINE/docker.sock"
    local fresh=
    [ -d "$YGS_ENGINE/data" ] || fresh=1
    mkdir -p "$YGS_ENGINE/data" "$YGS_ENGINE/exec"
    local flags=(--data-root "$YGS_ENGINE/data" --exec-root "$YGS_ENGINE/exec" -p "$YGS_ENGINE/dockerd.pid"
        -H "$engine_socket" --bridge=none --iptables=false --ip6tables=false)
    setsid dockerd "${flags[@]}" >"$YGS_ENGINE/dockerd.log" 2>&1 </dev/null 9>&- &
    local started=$! tries
    export DOCKER_HOST=$engine_socket
    for ((tries = 0; tries < ENGINE_S_MAX * 5; tries++)); do
        if engine_answers; then return 0; fi
        kill -0 "$started" 2>/dev/null || break
        sleep 0.2
    done
    echo "no container engine can be started on this machine: dockerd says" >&2
    grep -E 'level=(error|fatal)|^failed' "$YGS_ENGINE/dockerd.log" | tail -n 3 >&2 || tail -n 3 "$YGS_ENGINE/dockerd.log" >&2
    engine_stop
    # Else `docker/cluster remove` would take it for an engine that has something to be removed.
    [ -z "$fresh" ] || rm -rf --one-file-system "$YGS_ENGINE/data" "$YGS_ENGINE/exec"
    return 1
}

engine_stop() {
    local pid tries mount folder
    pid=$(engine_pid)
    if [ -n "$pid" ]; then
        kill "$pid"
        for ((tries = 0; tries < ENGINE_S_MAX * 5; tries++)); do
            [ -e "/proc/$pid" ] || break
            sleep 0.2
        done
        [ ! -e "/proc/$pid" ] || { echo "dockerd $pid does not end" >&2; return 1; }
    fi
    rm -f "$YGS_ENGINE/dockerd.pid" "$YGS_ENGINE/docker.sock"
    while read -r mount; do umount -l "$mount"; done < <(awk -v under="$YGS_ENGINE/" 'index($5, under) == 1 {print $5}' /proc/self/mountinfo | sort -r)
    # Its empty control groups; rmdir takes no other.
    for folder in /sys/fs/cgroup/docker /sys/fs/cgroup/*/docker; do
        if [ -d "$folder" ]; then rmdir "$folder" 2>/dev/null || true; fi
    done
}

engine_remove() {
    engine_stop
    rm -rf --one-file-system "$YGS_ENGINE"
}
