"""Exercises about digits and rows of numbers.

larger      57*7?38*9 -> 399?342 -> 399    both products, then the larger one
digit_sum   $5839     -> 13+12   -> 25     each half, then both
sort        &5839     -> 58+39   -> 3589   each half, then both
sequence    14,21,28  -> 07+028  -> 035    the step and the last number, then the next
"""

from calibsft.playground.study.exercise import DIGITS, NUMBERS, Exercise, Picker, Ranked

RANKED_DIGITS = Ranked(range(1, 10), 0.7)


def larger(picker: Picker) -> Exercise:
    a, b, c, d = picker.pick(NUMBERS), picker.pick(DIGITS), picker.pick(NUMBERS), picker.pick(DIGITS)
    return Exercise(f"{a}*{b}?{c}*{d}", f"{a * b:03d}?{c * d:03d}", f"{max(a * b, c * d):03d}")


def digit_sum(picker: Picker) -> Exercise:
    digits = [picker.pick(RANKED_DIGITS) for _ in range(4)]
    first, second = sum(digits[:2]), sum(digits[2:])
    return Exercise("$" + "".join(map(str, digits)), f"{first:02d}+{second:02d}", f"{first + second:02d}")


def sort(picker: Picker) -> Exercise:
    digits = "".join(str(picker.pick(RANKED_DIGITS)) for _ in range(4))
    return Exercise(f"&{digits}", f"{_sorted(digits[:2])}+{_sorted(digits[2:])}", _sorted(digits))


def sequence(picker: Picker) -> Exercise:
    first, step = picker.pick(NUMBERS), picker.pick(DIGITS)
    last = first + 2 * step
    return Exercise(f"{first},{first + step},{last}", f"{step:02d}+{last:03d}", f"{last + step:03d}")


def _sorted(digits: str) -> str:
    return "".join(sorted(digits))
