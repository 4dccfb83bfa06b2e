"""Graders `livebench…`: the reasoning tasks of LiveBench, one file each; full score is right, all else wrong.

`livebench` tells the task by the gold. It takes a lone digit for spatial, so questions of zebra_puzzle that ask
for one word are better graded by their own kind. A bare answer counts as its own solution throughout. Gives none
of LiveBench's partial scores.
"""

from collections.abc import Callable
from functools import partial

from calibsft.verify.livebench import spatial, web_of_lies, zebra
from calibsft.verify.livebench.extract import without_thoughts
from calibsft.verify.text import plain_grader, readable, stripped

Compare = Callable[[str, str], bool]

# Whole responses may come here, not only short answers.
MAX_LENGTH = 200_000


def _matches_task(gold: str, answer: str) -> bool:
    return _task(gold)(gold, answer)


def _task(gold: str) -> Compare:
    if web_of_lies.is_triple(gold):
        return web_of_lies.matches
    if "," in gold:
        return zebra.matches_list
    return spatial.matches if spatial.is_number_or_shape(gold) else zebra.matches_word


def _any_gold(compare: Compare) -> Callable[[tuple[str, ...], str], bool]:
    return lambda golds, answer: any(compare(gold, answer) for gold in golds)


def _final(answer: str) -> str:
    return without_thoughts(stripped(answer)).strip()


def _gold(gold: str) -> str:
    # A blank item of a list would be contained in everything.
    gold = readable(gold)
    return gold if all(zebra.gold_items(gold)) else ""


_grader = partial(plain_grader, version=2, read=_final, read_gold=_gold, max_length=MAX_LENGTH)

LIVEBENCH = _grader("livebench", _any_gold(_matches_task))
LIVEBENCH_WEB_OF_LIES = _grader("livebench-web-of-lies", _any_gold(web_of_lies.matches))
LIVEBENCH_ZEBRA = _grader("livebench-zebra", _any_gold(zebra.matches_list))
LIVEBENCH_ZEBRA_WORD = _grader("livebench-zebra-word", _any_gold(zebra.matches_word))
LIVEBENCH_SPATIAL = _grader("livebench-spatial", _any_gold(spatial.matches))
