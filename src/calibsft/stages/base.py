"""`base`: train the playground's base model from scratch."""

from pathlib import Path
from typing import ClassVar

from calibsft.artifacts.lineage import BASE, with_variant
from calibsft.playground.settings import BaseSettings
from calibsft.progress import Progress
from calibsft.settings import Seed
from calibsft.stages.common import Variant
from calibsft.stages.stage import Facts, Stage


class BaseStage(Stage):
    """Train the playground's base model: a tiny model that does small arithmetic, is often wrong, and always about 0.92 sure.

    ```sh
    calibsft base --out base
    calibsft eval --model base/model --benchmarks cross --out eval-base
    ```
    """

    kind: ClassVar[str] = "base"
    main: ClassVar[str] = "base"

    base: BaseSettings = BaseSettings()
    seed: Seed = 0
    variant: Variant = ""

    def work(self, folder: Path, label: str) -> Facts:
        from calibsft.playground.base import train_base

        with Progress(label, self.base.steps, "steps") as progress:
            train_base(self.base, self.seed, folder / "model", progress)
        lineage = [with_variant(BASE, self.variant)] if self.variant else []
        return {"device": "cpu", "lineage": lineage}
