#!/usr/bin/env bash
# Prove the README on a machine that has nothing: an empty Debian 12 root, only what the README names installed in it,
# a fresh clone of the last commit, then the README's commands as written:  cleanroom.sh [COMMAND...]
# The host's package settings (apt sources, certificates, pip, npm and Maven settings, proxies) are lent to the root;
# none of them is committed. The root is removed afterwards; YGS_CLEANROOM_KEEP=1 keeps it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
checkout=$PWD
suite=bookworm
commands=("$@")
[ $# -gt 0 ] || commands=("make demo" "make test")

die() { echo "cleanroom: $*" >&2; exit 1; }
say() { echo "=== cleanroom, $SECONDS s: $*"; }

[ "$(id -u)" = 0 ] || die "has to be started as root: it makes a root of its own with mmdebstrap and unshare"
if ! command -v mmdebstrap >/dev/null; then
    [ "${YGS_APT:-1}" != 0 ] || die "please install mmdebstrap, then try again"
    say "installing mmdebstrap"
    { apt-get update -q && apt-get install -q -y --no-install-recommends mmdebstrap; } >/dev/null
fi
needed=$(grep -m1 -oE 'apt-get install [a-z0-9 .+-]+' README.md | sed 's/^apt-get install //; s/ -y / /') ||
    die "README.md has no \`apt-get install ...\` that names what a fresh machine needs"

room=$(mktemp -d -p "${YGS_CLEANROOM_DIR:-/var/tmp}" ygs-cleanroom.XXXXXX)
root=$room/root
remove() {
    # What ran inside died with its process namespace, and with it the mounts.
    [ -z "${YGS_CLEANROOM_KEEP:-}" ] || { say "kept $room"; return; }
    rm -rf --one-file-system "$room"
}
trap remove EXIT
trap 'exit 130' INT TERM

# Settings of apt that say how it reaches its archives; a package's own (cleaning, hooks) stay out.
apt_settings() {
    local file
    for file in /etc/apt/apt.conf /etc/apt/apt.conf.d/*; do
        [ -f "$file" ] && ! dpkg -S "$file" >/dev/null 2>&1 && grep -q Acquire "$file" &&
            ! grep -q -e Post-Invoke -e Languages -e GzipIndexes "$file" && echo "$file"
    done
    return 0
}

make_root() {
    local options=() sources=() file
    while read -r file; do options+=("--aptopt=$file"); done < <(apt_settings)
    if grep -q "VERSION_CODENAME=$suite" /etc/os-release; then
        for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
            if [ -s "$file" ] && grep -q "$suite" "$file"; then sources+=("$file"); fi
        done
    fi
    mmdebstrap --quiet --mode=root --variant=minbase --include=ca-certificates "${options[@]}" \
        "$suite" "$root" "${sources[@]}"
}

lend_file() { # from, to
    if [ -f "$1" ]; then install -D -m 644 "$1" "$root/$2"; fi
}

lend_settings() {
    local file
    lend_file /etc/resolv.conf etc/resolv.conf
    lend_file /etc/pip.conf etc/pip.conf
    lend_file "$HOME/.config/pip/pip.conf" root/.config/pip/pip.conf
    lend_file "$HOME/.npmrc" root/.npmrc
    lend_file "$HOME/.m2/settings.xml" root/.m2/settings.xml
    for file in /usr/local/share/ca-certificates/*.crt; do lend_file "$file" "$file"; done
    printf '127.0.0.1 localhost cleanroom\n' >"$root/etc/hosts"
}

# Proxies, certificates and registries, as NAME=VALUE; nothing else of the caller's environment goes in.
lent_environment() {
    env | grep -E '^([A-Za-z]+_proxy|[A-Z]+_PROXY|PIP_(CERT|INDEX_URL|EXTRA_INDEX_URL|PROXY|DEFAULT_TIMEOUT)|SSL_CERT_(FILE|DIR)|[A-Z_]+_CA_BUNDLE|NODE_EXTRA_CA_CERTS|(NPM_CONFIG|npm_config)_(registry|cafile|proxy|https_proxy)|MAVEN_OPTS|MAVEN_ARGS)=' || true
}

write_script() {
    {
        echo 'set -euo pipefail'
        echo "step() { echo \"=== cleanroom: \$*\"; local began=\$SECONDS; \"\$@\"; echo \"=== cleanroom: \$*: \$((SECONDS - began)) s\"; }"
        echo 'quietly() { "$@" >/tmp/quietly.log 2>&1 || { tail -n 30 /tmp/quietly.log >&2; return 1; }; }'
        echo 'export DEBIAN_FRONTEND=noninteractive'
        echo 'quietly update-ca-certificates'
        echo 'quietly apt-get update -q'
        echo "step quietly apt-get install -q -y --no-install-recommends $needed"
        echo 'cd /root && git clone -q /srv/yarn-gpu-sched.git && cd yarn-gpu-sched'
        printf 'step %s\n' "${commands[@]}"
    } >"$root/root/as_the_readme_says.sh"
}

inside() {
    # shellcheck disable=SC2016 # expanded by the inner shell, with the root as its first argument
    unshare --mount --pid --ipc --uts --fork --kill-child bash -c '
        set -e
        root=$1; shift
        hostname cleanroom
        mount --make-rprivate /
        mount -t proc proc "$root/proc"
        mount -t sysfs -o ro sysfs "$root/sys"
        mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
        mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts "$root/dev/pts"
        ln -sf pts/ptmx "$root/dev/ptmx"
        exec chroot "$root" env -i HOME=/root TERM="${TERM:-dumb}" LANG=C.UTF-8 \
            PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@" \
            bash /root/as_the_readme_says.sh
    ' inside "$root" "$@" </dev/null
}

say "an empty Debian 12 root"
make_root
lend_settings
git clone -q --bare --no-hardlinks "$checkout" "$root/srv/yarn-gpu-sched.git"
chown -R 0:0 "$root/srv/yarn-gpu-sched.git"
write_script
mapfile -t lent < <(lent_environment)
say "the README's packages ($needed), then: ${commands[*]}"
inside "${lent[@]}"
say "all of it held"
