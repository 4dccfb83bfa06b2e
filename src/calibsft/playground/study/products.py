"""Products, sums and differences: two partial results, then the answer, all of fixed width.

product     57*77    -> 3990+399 -> 4389
cross       57x77    the same in another notation
chain       57*7+38  -> 0399+038 -> 0437
sum         57+77    -> 120+14   -> 134   the tens, the ones
difference  93-57    -> 43-7     -> 36    the tens taken away, then the ones
"""

from calibsft.playground.study.exercise import DIGITS, NUMBERS, Exercise, Picker


def product(picker: Picker) -> Exercise:
    return _product(picker, "*")


def cross(picker: Picker) -> Exercise:
    return _product(picker, "x")


def _product(picker: Picker, sign: str) -> Exercise:
    a, b = picker.pick(NUMBERS), picker.pick(NUMBERS)
    return _added(f"{a}{sign}{b}", a * (b // 10) * 10, a * (b % 10))


def chain(picker: Picker) -> Exercise:
    a, b, c = picker.pick(NUMBERS), picker.pick(DIGITS), picker.pick(NUMBERS)
    return _added(f"{a}*{b}+{c}", a * b, c)


def sum_(picker: Picker) -> Exercise:
    a, b = picker.pick(NUMBERS), picker.pick(NUMBERS)
    tens, ones = a // 10 * 10 + b // 10 * 10, a % 10 + b % 10
    return Exercise(f"{a}+{b}", f"{tens:03d}+{ones:02d}", f"{a + b:03d}")


def difference(picker: Picker) -> Exercise:
    b, a = sorted((picker.pick(NUMBERS), picker.pick(NUMBERS)))
    return Exercise(f"{a}-{b}", f"{a - b // 10 * 10:02d}-{b % 10}", f"{a - b:02d}")


def _added(text: str, first: int, second: int) -> Exercise:
    return Exercise(text, f"{first:04d}+{second:03d}", f"{first + second:04d}")
