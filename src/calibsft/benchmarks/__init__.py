"""What is asked: one file per benchmark, all listed here."""

from calibsft.benchmarks.benchmark import Benchmark
from calibsft.benchmarks.playground import CROSS, MULTIPLY, MULTIPLY_ADD
from calibsft.errors import unknown_name

BENCHMARKS: dict[str, Benchmark] = {
    benchmark.name: benchmark for benchmark in (*MULTIPLY, CROSS, MULTIPLY_ADD)
}


def get_benchmark(name: str) -> Benchmark:
    """The benchmark called `name`; an unknown name is refused with the nearest right one."""
    if name not in BENCHMARKS:
        unknown_name("benchmark", name, list(BENCHMARKS))
    return BENCHMARKS[name]


__all__ = ["BENCHMARKS", "Benchmark", "get_benchmark"]
