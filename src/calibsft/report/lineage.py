"""What reports call a model, and the order of models: both follow from what was done to the base.

Reads manifests alone, so that stages of a recipe and stages of single commands are shown alike.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from calibsft.artifacts import recorded_settings
from calibsft.artifacts.lineage import BASE, CALIBSFT, FINE_TUNINGS, WARMUP, split_step
from calibsft.rl.methods import METHODS

BASE_TITLE = "Base"
STEP_TITLES = {BASE: BASE_TITLE, WARMUP: "Warm-up", CALIBSFT: "CalibSFT"}


def step_title(step: str) -> str:
    """What reports call a step of a lineage."""
    name, variant = split_step(step)
    title = STEP_TITLES.get(name) or METHODS[name].title
    return f"{title} ({variant})" if variant else title


@dataclass(frozen=True, slots=True)
class Lineage:
    """One model: the steps that made it, how it writes its confidence, and the seed of its training.

    `other_format` is empty for the format of the run, `seed` is None where there is only one, and `folder` is empty unless
    several models are equal in everything else.
    """

    steps: tuple[str, ...]
    other_format: str = ""
    seed: int | None = None
    folder: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The steps without their variants."""
        return tuple(split_step(step)[0] for step in self.steps)

    @property
    def title(self) -> str:
        """The name of the model without its seed."""
        titles = [step_title(step) for step in self.steps]
        if not titles or (len(titles) == 1 and self.names[0] in METHODS):
            titles.insert(0, BASE_TITLE)
        return "→".join(titles) + (f" ({self.other_format})" if self.other_format else "")

    @property
    def label(self) -> str:
        """The name of the model in tables and figures."""
        seed = f", seed {self.seed}" if self.steps and self.seed is not None else ""
        return self.title + seed + (f", {self.folder}" if self.folder else "")

    @property
    def start(self) -> "Lineage":
        """The model that the last step started from."""
        return replace(self, steps=self.steps[:-1], folder="")

    @property
    def calibrated(self) -> bool:
        return CALIBSFT in self.names

    @property
    def warmed_up(self) -> bool:
        return WARMUP in self.names

    @property
    def counterpart(self) -> "Lineage":
        """The model that had everything but CalibSFT."""
        steps = tuple(step for step in self.steps if split_step(step)[0] != CALIBSFT)
        trained = any(name != BASE for name in replace(self, steps=steps).names)
        return replace(self, steps=steps, seed=self.seed if trained else None, folder="")

    @property
    def starts_rl(self) -> bool:
        return set(self.names) <= {BASE, *FINE_TUNINGS}

    @property
    def place(self) -> tuple[Any, ...]:
        """The sort key: models that RL starts from come first, then method by method."""
        methods = list(METHODS)
        last = self.names[-1] if self.names else ""
        trained = methods.index(last) if last in methods else -1
        seed = -1 if self.seed is None else self.seed
        later = trained < 0 and len(self.steps) > 1
        return trained, later, self.other_format, len(self.steps), self.steps, seed


def lineages(root: Path, manifests: Mapping[str, Mapping[str, Any]]) -> dict[str, Lineage]:
    """The model that each stage in `root` is about, for those that are about one."""
    about = {name: manifest for name, manifest in manifests.items() if "lineage" in manifest}
    formats = {name: str(recorded_settings(root / name).get("format", "")) for name in about}
    main = _format_of_run(about, formats)
    found = {
        name: Lineage(
            tuple(manifest["lineage"]),
            "" if formats[name] in ("", main) else formats[name],
            manifest.get("training_seed"),
        )
        for name, manifest in about.items()
    }
    if len(set(found.values())) == len({replace(one, seed=None) for one in found.values()}):
        found = {name: replace(one, seed=None) for name, one in found.items()}  # no model has several seeds
    return _with_folders(about, found)


def _format_of_run(about: Mapping[str, Mapping[str, Any]], formats: Mapping[str, str]) -> str:
    """The format that the base was sampled in, else that of the first stage."""
    sampled = [
        name for name, manifest in about.items() if manifest["stage"] == "rollout" and not manifest["lineage"]
    ]
    return next((formats[name] for name in [*sampled, *about] if formats[name]), "")


def _with_folders(about: Mapping[str, Mapping[str, Any]], found: dict[str, Lineage]) -> dict[str, Lineage]:
    """Add the folder's name where several stages of one kind are about models of one lineage."""
    times = Counter((about[name]["stage"], one) for name, one in found.items())
    return {
        name: one if times[about[name]["stage"], one] == 1 else replace(one, folder=name)
        for name, one in found.items()
    }
