"""The groups that balancing draws equally many responses from."""

from fractions import Fraction

from calibsft.responses.formats import Format


def exact_value(label: Fraction, confidence_format: Format) -> Fraction:
    """Every label is a group of its own, so all formats share one balanced set."""
    return label


def on_grid(label: Fraction, confidence_format: Format) -> Fraction:
    """Labels that the format writes alike are one group: continuous labels would give groups of one."""
    return confidence_format.value_of(confidence_format.render(label))
