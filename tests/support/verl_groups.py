"""Random groups of graded responses, and what `segment_advantages` says about the tokens of each."""

from collections.abc import Sequence

import numpy as np

from calibsft.integrations.verl.record import ResponseRecord
from calibsft.rl import METHODS, segment_advantages
from calibsft.rl.method import FloatArray, TokenSet

# Question, number of tokens, record.
Graded = tuple[str, int, ResponseRecord]


def random_responses(method: str, seed: int, questions: int, size: int) -> list[Graded]:
    """`size` responses to each question; some are malformed, and those to every fourth all wrong."""
    random = np.random.default_rng(seed)
    found = []
    for question in range(questions):
        rate, success_rate = (0.0, 0.5, 0.6, 1.0)[question % 4], float(random.choice([0.0, 0.5, 1.0]))
        for _ in range(size):
            tokens, well_formed = int(random.integers(6, 12)), bool(random.random() < 0.8)
            steps = 9 if METHODS[method].formats == ("integer",) else 100
            confidence = float(random.integers(steps + 1)) / steps
            first = int(random.integers(2, 5))
            record = ResponseRecord(
                correct=bool(random.random() < rate),
                confidence=confidence if well_formed else None,
                well_formed=well_formed,
                reason="ok" if well_formed else "truncated",
                segment=(0, 0) if METHODS[method].confidence_tokens is TokenSet.ALL else (first, tokens - 1),
                success_rate=success_rate,
            )
            found.append((f"q{question}", tokens, record))
    return found


def expected_rows(method: str, responses: Sequence[Graded]) -> list[FloatArray]:
    """The advantage of every token, by `segment_advantages` of each question's responses."""
    rows: dict[int, FloatArray] = {}
    for question in dict.fromkeys(one[0] for one in responses):
        places = [place for place, one in enumerate(responses) if one[0] == question]
        records = [responses[place][2] for place in places]
        found = segment_advantages(
            method,
            [record.correct for record in records],
            [record.confidence for record in records],
            [record.well_formed for record in records],
            records[0].success_rate,
        )
        mixed = len({record.counted for record in records}) == 2
        # Without right and wrong responses, answers would learn from the format alone.
        answers = found["answer"] if mixed or not METHODS[method].dynamic_sampling else [0.0] * len(places)
        for place, record, answer, confidence in zip(
            places, records, answers, found["confidence"], strict=True
        ):
            places_T = np.arange(responses[place][1])
            marked_T = (record.segment[0] <= places_T) & (places_T < record.segment[1])
            rows[place] = np.where(marked_T, confidence, answer)
    return [rows[place] for place in range(len(responses))]
