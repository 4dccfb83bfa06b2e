"""Graders `livebench…`: the reasoning tasks of LiveBench, one file each. A full score is right, all else is wrong.

`livebench` recognises the task by the gold. It takes a lone digit for spatial, so questions of zebra_puzzle with one word
are better graded by their own kind. A bare answer counts as its own solution. Gives none of LiveBench's partial scores.
"""

from collections.abc import Callable
from functools import partial

from calibsft.verify.livebench import spatial, web_of_lies, zebra
from calibsft.verify.livebench.extract import without_thoughts
from calibsft.verify.text import plain_grader, readable, stripped

Compare = Callable[[str, str], bool]

# An answer may be a whole response.
MAX_LENGTH = 200_000


def _matches_task(gold: str, answer: str) -> bool:
    if web_of_lies.is_triple(gold):
        return web_of_lies.matches(gold, answer)
    if "," in gold:
        return zebra.matches_list(gold, answer)
    if spatial.is_number_or_shape(gold):
        return spatial.matches(gold, answer)
    return zebra.matches_word(gold, answer)


def _any_gold(compare: Compare) -> Callable[[tuple[str, ...], str], bool]:
    return lambda golds, answer: any(compare(gold, answer) for gold in golds)


def _final(answer: str) -> str:
    return without_thoughts(stripped(answer)).strip()


def _gold(gold: str) -> str:
    # Every answer would contain a blank item.
    gold = readable(gold)
    return gold if all(zebra.gold_items(gold)) else ""


_grader = partial(plain_grader, version=2, read=_final, read_gold=_gold, max_length=MAX_LENGTH)

LIVEBENCH = _grader("livebench", _any_gold(_matches_task))
LIVEBENCH_WEB_OF_LIES = _grader("livebench-web-of-lies", _any_gold(web_of_lies.matches))
LIVEBENCH_ZEBRA = _grader("livebench-zebra", _any_gold(zebra.matches_list))
LIVEBENCH_ZEBRA_WORD = _grader("livebench-zebra-word", _any_gold(zebra.matches_word))
LIVEBENCH_SPATIAL = _grader("livebench-spatial", _any_gold(spatial.matches))
