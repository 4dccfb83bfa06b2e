"""The model card beside a fine-tuned checkpoint: what it was made from, how, and what its confidence means."""

import json

from calibsft import __version__
from calibsft.recipe import SftSettings
from calibsft.responses.formats import Format


def model_card(
    base: str, settings: SftSettings, confidence_format: Format, rows: int, final_loss: float
) -> str:
    """The card as Markdown with the Hub's front matter."""
    details = json.dumps(settings.model_dump(mode="json"), indent=2)
    return f"""---
library_name: transformers
base_model: {json.dumps(base)}
tags: [calibration, confidence, calibsft]
---

# Fine-tuned to state calibrated confidence

Made by calibsft {__version__} from `{base}`: supervised fine-tuning on {rows:,} responses of that model whose stated
confidence was replaced by a target built from how often the model is right.

**Response format** ({confidence_format.name}): `<think>…</think> <answer>…</answer> <confidence>…</confidence>`. Ask with this
system prompt:

> {confidence_format.system_prompt}

**Training.** Loss `{settings.loss}`, final value {final_loss:.4f}, {settings.steps} steps of {settings.batch_size} responses.

```json
{details}
```

**What it does not promise.** The stated confidence is calibrated on questions like those it was trained on; measure it on
yours (`calibsft score`) before you rely on it.
"""
