"""Strata: the groups that balancing draws equally many responses from."""

from fractions import Fraction

from calibsft.responses.formats import Format


def exact_value(label: Fraction, confidence_format: Format) -> Fraction:
    """Every label is its own group, so the balanced set is the same in all formats."""
    return label


def on_grid(label: Fraction, confidence_format: Format) -> Fraction:
    """Labels that the format writes the same are one group; continuous labels would give groups of one."""
    return confidence_format.value_of(confidence_format.render(label))
