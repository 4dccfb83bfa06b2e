"""Exercises about digits and letters.

larger      57*7?38*9 -> 399?342  -> 399   both products, then the larger one
digit_sum   $5839     -> 13+12    -> 25    each half, then both
sort        &dkba     -> dk+ab    -> abdk  each half, then both
"""

from calibsft.playground.study.exercise import DIGITS, NUMBERS, Exercise, Picker, Ranked

# Without those that the tokenizer reads as words or signs: l, o, w and x.
LETTERS = "abcdefghijkmnpqrstuv"
RANKED_LETTERS = Ranked(LETTERS, 0.7)
RANKED_DIGITS = Ranked(range(1, 10), 0.7)


def larger(picker: Picker) -> Exercise:
    a, b, c, d = picker.pick(NUMBERS), picker.pick(DIGITS), picker.pick(NUMBERS), picker.pick(DIGITS)
    return Exercise(f"{a}*{b}?{c}*{d}", f"{a * b:03d}?{c * d:03d}", f"{max(a * b, c * d):03d}")


def digit_sum(picker: Picker) -> Exercise:
    digits = [picker.pick(RANKED_DIGITS) for _ in range(4)]
    first, second = sum(digits[:2]), sum(digits[2:])
    return Exercise("$" + "".join(map(str, digits)), f"{first:02d}+{second:02d}", f"{first + second:02d}")


def sort(picker: Picker) -> Exercise:
    letters = "".join(picker.pick(RANKED_LETTERS) for _ in range(4))
    first, second = _sorted(letters[:2]), _sorted(letters[2:])
    return Exercise(f"&{letters}", f"{first}+{second}", _sorted(letters))


def _sorted(letters: str) -> str:
    return "".join(sorted(letters))
