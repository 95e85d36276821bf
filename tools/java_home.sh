#!/usr/bin/env bash
# Print the home of a JDK 17: JAVA_HOME if it is one, else one that Debian installed, else the one behind `javac`.
# Hadoop 3.4 is supported on 8, 11 and 17; newer JDKs removed what its daemons call.
set -euo pipefail

is_jdk_17() {
    [ -x "$1/bin/javac" ] && [ -x "$1/bin/java" ] && [[ $("$1/bin/javac" -version 2>&1) == "javac 17"* ]]
}

candidates=("${JAVA_HOME:-}" /usr/lib/jvm/java-17-openjdk-* /usr/lib/jvm/*17*)
if javac=$(command -v javac); then
    candidates+=("$(dirname "$(dirname "$(readlink -f "$javac")")")")
fi
for home in "${candidates[@]}"; do
    if [ -n "$home" ] && is_jdk_17 "$home"; then
        echo "$home"
        exit 0
    fi
done
echo "No JDK 17 found: install openjdk-17-jdk-headless or set JAVA_HOME to one." >&2
exit 1
