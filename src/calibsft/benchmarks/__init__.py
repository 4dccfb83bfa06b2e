"""The benchmarks: one file each, all listed here."""

from calibsft.benchmarks.aime import AIME
from calibsft.benchmarks.benchmark import Benchmark
from calibsft.benchmarks.deepscaler import DEEPSCALER, DEEPSCALER_EVAL
from calibsft.benchmarks.drop import DROP
from calibsft.benchmarks.gsm8k import GSM8K
from calibsft.benchmarks.hotpotqa import HOTPOTQA
from calibsft.benchmarks.livebench_reasoning import LIVEBENCH_REASONING
from calibsft.benchmarks.math_500 import MATH_500
from calibsft.benchmarks.minerva_math import MINERVA_MATH
from calibsft.benchmarks.musique import MUSIQUE
from calibsft.benchmarks.nq_open import NQ_OPEN
from calibsft.benchmarks.olympiadbench import OLYMPIADBENCH
from calibsft.benchmarks.playground import CROSS, MULTIPLY, MULTIPLY_ADD, TRAINING
from calibsft.benchmarks.popqa import POPQA
from calibsft.benchmarks.study import STUDY, STUDY_TRAINING
from calibsft.benchmarks.triviaqa import TRIVIAQA
from calibsft.benchmarks.webquestions import WEBQUESTIONS
from calibsft.errors import unknown_name

PLAYGROUND = (*MULTIPLY, CROSS, MULTIPLY_ADD, TRAINING)
# Both worlds, domain by domain, as lists show benchmarks.
EMBEDDED = sorted((*PLAYGROUND, *STUDY, STUDY_TRAINING), key=lambda one: (one.training, one.domain))

BENCHMARKS: dict[str, Benchmark] = {
    benchmark.name: benchmark
    for benchmark in (
        DEEPSCALER_EVAL,
        MATH_500,
        MINERVA_MATH,
        OLYMPIADBENCH,
        GSM8K,
        *AIME,
        HOTPOTQA,
        MUSIQUE,
        TRIVIAQA,
        NQ_OPEN,
        POPQA,
        WEBQUESTIONS,
        DROP,
        LIVEBENCH_REASONING,
        DEEPSCALER,
        *EMBEDDED,
    )
}


def get_benchmark(name: str) -> Benchmark:
    """The benchmark called `name`; refuses an unknown name and suggests the nearest known one."""
    return BENCHMARKS[name] if name in BENCHMARKS else unknown_name("benchmark", name, list(BENCHMARKS))


__all__ = ["BENCHMARKS", "Benchmark", "get_benchmark"]
