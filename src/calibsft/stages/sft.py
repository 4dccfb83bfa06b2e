"""`sft`: fine-tune on confidence targets."""

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from calibsft.artifacts import file_hash, model_inputs
from calibsft.artifacts.lineage import step_of, trained, with_variant
from calibsft.errors import InputError
from calibsft.responses.formats import get_format
from calibsft.responses.prompts import Prompting
from calibsft.responses.settings import DEFAULT_FORMAT, FormatName, Template
from calibsft.settings import Device, Mark, Seed
from calibsft.sft.settings import SftSettings
from calibsft.stages.common import Model, Variant
from calibsft.stages.published import PublishedStage
from calibsft.stages.stage import Facts


class SftStage(PublishedStage):
    """Fine-tune with CalibSFT's loss: on the confidence of all responses, on reasoning and answer of correct ones only.

    ```sh
    calibsft sft --model Qwen/Qwen3-0.6B --data data --out sft
    accelerate launch -m calibsft sft --model base/model --data data --out sft
    ```

    The defaults are the paper's: 180 steps of 256 responses, learning rate 2e-6.
    """

    kind: ClassVar[str] = "sft"
    main: ClassVar[str] = "sft"
    shared: ClassVar[bool] = True

    model: Model
    data: Annotated[
        Path, Mark.CONTENT, Field(description="folder that `calibsft build` wrote, or the sft.parquet in it")
    ]
    sft: SftSettings = SftSettings()
    format: FormatName = DEFAULT_FORMAT
    template: Template = Field({})
    seed: Seed = 0
    device: Device = "auto"
    variant: Variant = ""

    @property
    def table(self) -> Path:
        return self.data / "sft.parquet" if self.data.is_dir() else self.data

    def inputs(self) -> dict[str, str]:
        if not self.table.is_file():
            raise InputError(f"{self.table}: no such training set; make one with calibsft build")
        return {"data": file_hash(self.table), **model_inputs(self.model)}

    def work(self, folder: Path, label: str) -> Facts:
        from calibsft.sft.fine_tune import fine_tune

        step, prompting = step_of(self.table), Prompting(get_format(self.format), self.template)
        facts = fine_tune(
            self.model,
            self.table,
            self.sft,
            prompting,
            self.seed,
            folder,
            self.device,
            label,
            step,
            self.identity(),
        )
        return {
            "model": self.model,
            **trained(self.model, with_variant(step, self.variant), self.seed),
            **facts,
        }
