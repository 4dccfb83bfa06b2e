"""Divisions.

quotient   1001/13 -> 0910+091 -> 77   the products by tens and by ones
remainder  438%7   -> 434+4    -> 4    the largest multiple, and what is left
"""

from calibsft.playground.study.exercise import DIGITS, NUMBERS, Exercise, Picker, Ranked

DIVISORS = Ranked(range(2, 20), 0.7)
HUNDREDS = Ranked(range(100, 1000), 0.7)


def quotient(picker: Picker) -> Exercise:
    divisor, answer = picker.pick(DIVISORS), picker.pick(NUMBERS)
    tens, ones = divisor * (answer // 10) * 10, divisor * (answer % 10)
    return Exercise(f"{divisor * answer:04d}/{divisor}", f"{tens:04d}+{ones:03d}", str(answer))


def remainder(picker: Picker) -> Exercise:
    a, divisor = picker.pick(HUNDREDS), picker.pick(DIGITS)
    left = a % divisor
    return Exercise(f"{a}%{divisor}", f"{a - left:03d}+{left}", str(left))
