"""Graders `livebench…`: the reasoning tasks of LiveBench, one file each. A full score is right, all else is wrong.

`livebench` recognises the task by the gold. It takes a lone digit for spatial, so questions of zebra_puzzle with one word
are better graded by their own kind. A bare answer counts as its own solution. Gives none of LiveBench's partial scores.
"""

from collections.abc import Callable

from calibsft.verify.grader import Grader
from calibsft.verify.livebench import spatial, web_of_lies, zebra
from calibsft.verify.livebench.extract import without_thoughts
from calibsft.verify.text import plain_grader, stripped

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


def _final(answer: str) -> str:
    return without_thoughts(stripped(answer)).strip()


def _gold(gold: str) -> str:
    # Every answer would contain a blank item.
    gold = stripped(gold)
    return gold if all(zebra.gold_items(gold)) else ""


def _grader(name: str, compare: Callable[[str, str], bool]) -> Grader:
    def matches(golds: tuple[str, ...], answer: str) -> bool:
        return any(compare(gold, answer) for gold in golds)

    return plain_grader(name, matches, version=2, read=_final, read_gold=_gold, max_length=MAX_LENGTH)


LIVEBENCH = _grader("livebench", _matches_task)
LIVEBENCH_WEB_OF_LIES = _grader("livebench-web-of-lies", web_of_lies.matches)
LIVEBENCH_ZEBRA = _grader("livebench-zebra", zebra.matches_list)
LIVEBENCH_ZEBRA_WORD = _grader("livebench-zebra-word", zebra.matches_word)
LIVEBENCH_SPATIAL = _grader("livebench-spatial", spatial.matches)
