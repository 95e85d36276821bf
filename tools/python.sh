#!/usr/bin/env bash
# Print the interpreter to build .venv with: PYTHON if set, else the system's 3.11, else the first python3 that is new
# enough. The lock files are for CPython 3.11; other versions work as far as their wheels exist.
set -euo pipefail
for candidate in ${PYTHON:-} /usr/bin/python3.11 python3.11 python3; do
    path=$(command -v "$candidate") || continue
    if "$path" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        echo "$path"
        exit 0
    fi
done
echo "No Python 3.11 or newer found: install python3-venv or set PYTHON." >&2
exit 1
