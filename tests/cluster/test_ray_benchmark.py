"""The benchmark of shards and joins runs, on clusters of its own."""

import subprocess
import sys


def test_benchmark_prints_its_tables(tmp_path):
    sizes = ["--shards", "1", "--vectors", "1000", "--dim", "32", "--joined", "4000"]
    command = [sys.executable, "-m", "benchmarks", "cluster", *sizes]
    command += ["--pairs", "3000", "--work", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr
    for column in ("bare fan-out, ms", "efficiency", "largest component"):
        assert column in done.stdout
    # So few rows are all compared: files and collection find the same pairs.
    compared = done.stdout.split("of the collection alone")[1].splitlines()[2]
    assert compared.endswith("| 0 | 0 |")
