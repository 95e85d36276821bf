"""Refresh proto/image.binpb, the protocol as it was promised; `buf breaking` compares proto/ with it.

The image changes only together with a line in CHANGELOG.md: a change that others must know of is told to them.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IMAGE = "proto/image.binpb"


def build(root: Path) -> bytes:
    """Return the image of the protocol as it stands in `root`; raises CalledProcessError where it does not compile."""
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / "image.binpb"
        buf = ROOT / "proto" / "node_modules" / ".bin" / "buf"
        subprocess.run([buf, "build", root / "proto", "--output", image], check=True)
        return image.read_bytes()


def changelog_gained_lines(root: Path) -> bool:
    """Whether CHANGELOG.md has lines that the last commit has not."""
    command = ["git", "-C", str(root), "diff", "--numstat", "HEAD", "--", "CHANGELOG.md"]
    counts = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    return bool(counts) and int(counts[0]) > 0


def main() -> int:
    """Run from the command line, for the checkout given or this one."""
    root = Path(sys.argv[1]) if sys.argv[1:] else ROOT
    target = root / IMAGE
    made = build(root)
    if target.exists() and target.read_bytes() == made:
        print(f"{IMAGE} is up to date")
        return 0
    if target.exists() and not changelog_gained_lines(root):
        print(f"{IMAGE} would change, so CHANGELOG.md needs a new line about it in the same commit", file=sys.stderr)
        return 1
    target.write_bytes(made)
    print(f"{IMAGE} written ({len(made)} bytes); commit it together with CHANGELOG.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
