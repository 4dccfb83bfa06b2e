"""`prior`: how much of RL's gradient each confidence value of a model would get."""

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from calibsft.artifacts import GRADIENT, model_inputs, read_manifest, write_json
from calibsft.artifacts.lineage import lineage_of
from calibsft.prior.settings import PriorSettings
from calibsft.progress import Progress
from calibsft.responses.formats import get_format
from calibsft.responses.prompts import Prompting
from calibsft.responses.settings import DEFAULT_FORMAT, FormatName, Template
from calibsft.settings import Device, Dtype, Mark
from calibsft.stages.common import Model
from calibsft.stages.stage import Facts, Stage

CONTEXTS = 64


class PriorStage(Stage):
    """Measure how likely a model is to state each confidence value, and how much RL would teach it about that value.

    ```sh
    calibsft prior --model base/model --evaluation eval-base --out prior
    ```

    For each value: its probability after responses of the model, and its share of the expected gradient of the Brier
    reward. A value that is hardly ever sampled gets almost no gradient.
    """

    kind: ClassVar[str] = "prior"
    main: ClassVar[str] = "prior"

    model: Model
    evaluation: Annotated[
        Path, Mark.CONTENT, Field(description="folder that `calibsft eval` wrote for this model")
    ]
    prior: PriorSettings = PriorSettings(contexts=CONTEXTS)
    format: FormatName = DEFAULT_FORMAT
    template: Template = Field({})
    device: Device = "auto"
    dtype: Dtype = "auto"

    def inputs(self) -> dict[str, str]:
        return {"eval": str(read_manifest(self.evaluation)["content_hash"]), **model_inputs(self.model)}

    def work(self, folder: Path, label: str) -> Facts:
        from calibsft.models import load_model, load_tokenizer
        from calibsft.rl.prior_gradient import gradient_shares, read_contexts

        prompting = Prompting(get_format(self.format), self.template)
        contexts = self.prior.contexts or CONTEXTS
        found = read_contexts(self.evaluation, contexts, load_tokenizer(self.model), prompting)
        model = load_model(self.model, self.device, self.dtype)
        with Progress(label, len(prompting.format.words), "values") as progress:
            write_json(folder / GRADIENT, gradient_shares(model, found, progress))
        return {**lineage_of(self.model), "device": str(model.device)}
