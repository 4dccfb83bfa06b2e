"""The evaluation libraries that calibsft is a plug-in of; trainers are in `exports`."""

from dataclasses import dataclass

MANUAL = "docs/ecosystem.md"


@dataclass(frozen=True, slots=True)
class Plugin:
    """Another library.

    Attributes
    ----------
    package
        The library's own package.
    proof
        Module and function that return what proves that the library has the plug-in, or raise.
    install
        The command that installs the library; it names calibsft too, so that the versions of both fit.
    manual
        The page about it.
    """

    package: str
    proof: tuple[str, str]
    install: str
    manual: str = MANUAL


def _plugin(package: str, name: str) -> Plugin:
    # By name: these modules import the libraries, which may be absent.
    return Plugin(package, (f"calibsft.integrations.{name}", "registered"), f"pip install calibsft {package}")


PLUGINS: dict[str, Plugin] = {
    "inspect": _plugin("inspect_ai", "inspect_ai"),
    "lm-eval": _plugin("lm_eval", "lm_eval"),
    "verifiers": _plugin("verifiers", "verifiers"),
}
