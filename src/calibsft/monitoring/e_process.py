"""The e-value of "events are at most so frequent", and the lower bound that follows from it.

A rate q above the budget r multiplies its e-value by q/r at an event and by (1 − q)/(1 − r) at a
label without one. While events are at most as frequent as r, no such product is expected to grow,
nor is a mixture of them over all q in (r, 1]. So it ever reaches 1/delta with probability at most
delta, however often one looks (Ville's inequality).

The mixture is Beta(1, c) in (q − r)/(1 − r), with c = 1/budget: the rates against which the budget
is tested are about twice the budget on average. Its integral has a closed form, so an e-value
depends on the two counts alone and is exact. Holds no state.
"""

from math import exp, inf, log, log1p

from scipy.optimize import brentq
from scipy.special import betaincc, betaln

# A rate that is as good as 0 where logarithms are taken.
LEAST_RATE = 1e-300
# Terms of a series that no longer change its sum.
NEGLIGIBLE = 1e-17
# How exactly a lower bound is found, relative to itself.
PRECISION = 1e-12


def concentration(budget: float) -> float:
    """How near the budget the mixture is: c of its Beta(1, c)."""
    return 1 / max(budget, LEAST_RATE)


def log_e_value(labels: int, events: int, rate: float, c: float) -> float:
    """The logarithm of the e-value against events at `rate` or less; 0 before the first label.

    With u = (1 − q)/(1 − rate), whose density is c·u^(c−1) on (0, 1), the e-value is the mean of
    u^(labels − events)·(u + (1 − u)/rate)^events. So it falls as `rate` rises, which `lower_bound`
    relies on.
    """
    against = labels - events + c
    if events * (1 - rate) <= (against + 1) * rate:
        return log(c / against * _series(events, against, (1 - rate) / rate))
    # The part of Beta(events + 1, against) above `rate`; it is most, so nothing underflows.
    above = betaincc(events + 1, against, rate)
    mixture = log(c) + float(betaln(events + 1, against)) + log(above)
    return mixture - events * log(rate) - against * log1p(-rate)


def _series(events: int, against: float, odds: float) -> float:
    """The sum over j of odds^j · events ⋯ (events − j + 1) / ((against + 1) ⋯ (against + j)).

    Where the integral is a small tail, it is this sum, whose terms are positive and fall: exact
    without cancellation.
    """
    total = term = 1.0
    for j in range(1, events + 1):
        term *= odds * (events - j + 1) / (against + j)
        total += term
        if term < NEGLIGIBLE * total:
            break
    return total


def rejects(labels: int, events: int, rate: float, delta: float, c: float) -> bool:
    """Whether these counts alone reject that events are at most as frequent as `rate`."""
    wanted = -log(delta)
    # The best single q is worth more than the mixture, and costs a hundredth of the time.
    if _log_best(labels, events, rate) < wanted:
        return False
    return log_e_value(labels, events, max(rate, LEAST_RATE), c) >= wanted


def _log_best(labels: int, events: int, rate: float) -> float:
    """The largest logarithm that the e-value of a single rate reaches: that of the observed one."""
    if events <= labels * rate:
        return 0.0
    if rate == 0:
        return inf
    others = labels - events
    rest = others * log(others / (labels * (1 - rate))) if others else 0.0
    return events * log(events / (labels * rate)) + rest


def lower_bound(labels: int, events: int, delta: float, c: float, known: float = 0.0) -> float:
    """The largest rate that these counts reject, at least `known`, an earlier lower bound.

    Events are rarer than the largest bound of any number of labels with probability at most delta.
    """
    least = max(known, LEAST_RATE)
    if not rejects(labels, events, least, delta, c):
        return known

    def excess(log_rate: float) -> float:
        return log_e_value(labels, events, exp(log_rate), c) + log(delta)

    # Counts never reject the rate that they show.
    return exp(brentq(excess, log(least), log(events / labels), xtol=PRECISION))
