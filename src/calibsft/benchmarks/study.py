"""The study's benchmarks: eight of kinds that are trained on after pre-training, eight of kinds that are not.

Facts are asked as they were taught; all other questions are held out from pre-training and from the training pool.
"""

from functools import partial

from calibsft.benchmarks.benchmark import Benchmark
from calibsft.playground.study.questions import SECTIONS, section_questions, training_questions

STUDY = [
    Benchmark(
        f"study-{name}", section.description, section.domain, "exact",
        embedded=partial(section_questions, name),
    )
    for name, section in SECTIONS.items()
]  # fmt: skip
STUDY_TRAINING = Benchmark(
    "study", "the study's questions to train on, disjoint from all others", "id", "exact",
    embedded=training_questions, training=True,
)  # fmt: skip
