"""Counts words on Spark, for test_spark.py: `spark_words.py FOLDER`.

Writes FOLDER/counted when the words are counted, goes on when FOLDER/go is there, and writes FOLDER/ended at its end.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from operator import add
from pathlib import Path

from pyspark import SparkContext  # type: ignore[import-not-found]  # comes with `make spark` alone

PARTITIONS, LINES, PAUSE_S, WAIT_S_MAX = 16, 160, 0.2, 300.0


def words(lines: Iterator[str]) -> Iterator[tuple[str, int]]:
    """Take long enough for each line that a backlog is seen."""
    for line in lines:
        time.sleep(PAUSE_S)
        yield from ((word, 1) for word in line.split())


def executors(spark: SparkContext) -> int:
    """Return how many there are: the driver is listed as well."""
    return len(spark._jsc.sc().statusTracker().getExecutorInfos()) - 1


def main(folder: Path) -> None:
    """Count, wait, count again: what was released while idle is asked for once more."""
    spark = SparkContext()
    lines = [f"gang {'of' if number % 2 else 'and'} words" for number in range(LINES)]

    def count() -> dict[str, int]:
        return dict(spark.parallelize(lines, PARTITIONS).mapPartitions(words).reduceByKey(add, 4).collect())

    told = {"counts": count(), "busy": executors(spark)}
    (folder / "counted").write_text(json.dumps(told))
    deadline_s = time.monotonic() + WAIT_S_MAX
    while not (folder / "go").exists():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"no {folder / 'go'} after {WAIT_S_MAX} s")
        time.sleep(0.1)
    told = {"counts": count(), "busy": executors(spark)}
    (folder / "ended").write_text(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
