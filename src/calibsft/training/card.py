"""The frame of a model card: front matter, how to ask, the settings, and what is not promised."""

import json

from calibsft.recipe import Settings
from calibsft.responses.formats import Format


def model_card(
    start: str,
    tags: tuple[str, ...],
    title: str,
    story: str,
    settings: Settings,
    confidence_format: Format,
) -> str:
    """The card as Markdown with the Hub's front matter; `story` says how the model was made from `start`."""
    details = json.dumps(settings.model_dump(mode="json"), indent=2)
    return f"""---
library_name: transformers
base_model: {json.dumps(start)}
tags: [{", ".join(("calibration", "confidence", "calibsft", *tags))}]
---

# {title}

{story}

**Response format** ({confidence_format.name}): `<think>…</think> <answer>…</answer> <confidence>…</confidence>`. Ask with this
system prompt:

> {confidence_format.system_prompt}

```json
{details}
```

**What it does not promise.** The stated confidence is calibrated on questions like those it was trained on; measure it on
yours (`calibsft score`) before you rely on it.
"""
