"""The model card beside a checkpoint that RL has trained."""

import json

from calibsft import __version__
from calibsft.recipe import RlSettings
from calibsft.responses.formats import Format
from calibsft.rl.method import Method


def model_card(
    start: str, method: Method, settings: RlSettings, confidence_format: Format, questions: int
) -> str:
    """The card as Markdown with the Hub's front matter."""
    details = json.dumps(settings.model_dump(mode="json"), indent=2)
    return f"""---
library_name: transformers
base_model: {json.dumps(start)}
tags: [calibration, confidence, calibsft, {method.name}]
---

# Trained by {method.title} to state its confidence

Made by calibsft {__version__} from `{start}`: {settings.steps} rollout steps of {settings.questions} questions x
{settings.group_size} responses, drawn from {questions:,} questions. A malformed response is rewarded with {method.malformed}.

**Response format** ({confidence_format.name}): `<think>…</think> <answer>…</answer> <confidence>…</confidence>`. Ask with this
system prompt:

> {confidence_format.system_prompt}

```json
{details}
```

**What it does not promise.** The stated confidence was trained on questions like those above; measure it on yours
(`calibsft score`) before you rely on it.
"""
