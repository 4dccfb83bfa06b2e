"""An RL method of your own: settings, one pure function, a line in the dict, and a few steps on the playground.

python method_of_your_own.py
"""

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

import calibsft
from calibsft.errors import InputError
from calibsft.playground.world import training_questions
from calibsft.rl.method import Group, Method, SegmentRewards, TokenSet
from calibsft.rl.methods import METHODS
from calibsft.rl.options import AnswerIsRewarded, DividesByDeviation, RewardsConfidence
from calibsft.stages import STAGES


class LogarithmicSettings(AnswerIsRewarded, DividesByDeviation, RewardsConfidence):
    name: Literal["logarithmic"] = "logarithmic"
    least: float = Field(0.01, gt=0, lt=0.5, description="no outcome counts as less likely than that")


def rewards(group: Group, settings: LogarithmicSettings) -> SegmentRewards:
    """Answers are rewarded if right, confidences by their logarithmic score from 0 to 1.

    It is proper, as RLCR's Brier score is, and harder on a confident mistake.
    """
    stated_G = np.nan_to_num(group.confidence_G)
    of_outcome_G = np.where(group.counted_G, stated_G, 1 - stated_G)
    score_G = 1 - np.log(np.clip(of_outcome_G, settings.least, 1)) / np.log(settings.least)
    # A malformed response gets nothing, so that keeping to the format pays.
    return SegmentRewards(answer_G=1.0 * group.counted_G, confidence_G=group.well_formed_G * score_G)


# The last one says which tokens learn from the second reward.
LOGARITHMIC = Method(
    "logarithmic", "Logarithmic", rewards, LogarithmicSettings, "0 for both", TokenSet.CONFIDENCE_TAG
)


def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="a playground checkpoint; default: one is trained first")
    parser.add_argument("--steps", type=int, default=8, help="of RL; default: %(default)s")
    parser.add_argument("--out", type=Path, default=Path("runs/example-method"), help="default: %(default)s")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    METHODS["logarithmic"] = LOGARITHMIC  # all that has to be told of it

    four = Group(np.array([True, True, False, False]), np.array([0.9, 0.2, 0.2, 0.9]), np.ones(4, dtype=bool))
    score_G = rewards(four, LogarithmicSettings()).confidence_G
    for correct, confidence, score in zip(four.correct_G, four.confidence_G, score_G, strict=True):
        print(f"{'right' if correct else 'wrong'} and {confidence} sure: {score:.2f}")

    model, questions = given.model or given.out / "base" / "model", given.out / "questions.jsonl"
    if not given.model:  # 76,000 parameters, trained until they keep to the format: answers are mostly wrong
        STAGES["base"].of({"steps": 150, "warmup_steps": 20}).perform(given.out / "base")
    with questions.open("w") as out:
        for one in training_questions()[:500]:
            row = {"question_id": one.id, "question": one.text, "gold": one.gold, "kind": one.grader}
            out.write(json.dumps(row) + "\n")
    small = {"questions": 8, "micro_batch_size": 64, "max_new_tokens": 32, "learning_rate": 1e-3}
    # Where all answers to a question are wrong they teach nothing, but their confidences do.
    small |= {"steps": given.steps, "keep_unanimous": True, "device": "cpu", "fresh": True}
    trained = calibsft.train(model=model, method="logarithmic", data=questions, out=given.out / "rl", **small)
    line = "step {step}: right {pass@1:.2f}, stated {mean_confidence:.2f}, reward {reward_confidence:.2f}"
    for step in (trained.path / "metrics.jsonl").read_text().splitlines():
        print(line.format(**json.loads(step)))
    print(f"checkpoint: {trained.model}")


if __name__ == "__main__":
    try:
        main()
    except (InputError, OSError) as error:
        sys.exit(f"Error: {error}")
