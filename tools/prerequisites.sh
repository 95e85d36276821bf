#!/usr/bin/env bash
# Make sure that the named system tools are there: prerequisites.sh NEED...   (needs: venv jdk maven npm cc engine
# mmdebstrap)
# Installs what is missing where that is possible (root on Debian, and YGS_APT is not 0), else says in one sentence
# what to install.
set -euo pipefail
shopt -s inherit_errexit
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

has_venv() { "$("$here/python.sh" 2>/dev/null || echo false)" -c 'import ensurepip, venv' 2>/dev/null; }
has_jdk() { "$here/java_home.sh" >/dev/null 2>&1; }
has_maven() { command -v mvn >/dev/null; }
has_npm() { command -v npm >/dev/null; }
has_engine() { command -v dockerd >/dev/null && command -v docker >/dev/null && has_compose; }
has_compose() { docker compose version >/dev/null 2>&1 || command -v docker-compose >/dev/null; }
has_mmdebstrap() { command -v mmdebstrap >/dev/null; }
has_cc() { command -v cc >/dev/null || command -v tcc >/dev/null; }

package_of() {
    case $1 in
        venv) echo python3-venv ;;
        jdk) echo openjdk-17-jdk-headless ;;
        maven) echo maven ;;
        npm) echo npm ;;
        cc) echo tcc libc6-dev ;;  # the smallest that builds a library
        engine) echo docker.io docker-compose ;;
        mmdebstrap) echo mmdebstrap ;;
        *) echo "prerequisites.sh: unknown need \"$1\"; known are venv, jdk, maven, npm, cc, engine, mmdebstrap" >&2; exit 2 ;;
    esac
}

missing() {
    local need package
    for need in "$@"; do
        package=$(package_of "$need")
        "has_$need" || printf '%s ' "$package"
    done
}

may_install() { [ "$(id -u)" = 0 ] && [ "${YGS_APT:-1}" != 0 ] && command -v apt-get >/dev/null; }

packages=$(missing "$@")
[ -n "$packages" ] || exit 0
if ! may_install; then
    echo "Please install what is missing, then try again: apt-get install ${packages% }" \
        "(Python 3.11 or newer with venv, JDK 17, Maven, npm; set JAVA_HOME if the JDK stands elsewhere)." >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
install='apt-get update -q && apt-get install -q -y --no-install-recommends "$@"'
# shellcheck disable=SC2086 # a list of package names
"$here/progress.sh" "apt-get install ${packages% }" bash -c "$install" install $packages || {
    echo "apt-get could not install ${packages% }; please install them, then try again." >&2
    exit 1
}
left=$(missing "$@")
[ -z "$left" ] || { echo "still missing after installation: $left" >&2; exit 1; }
