"""The reader of the documentation notices mistakes: in flags, names, output, recipes and unlisted programs."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from command import Command
from doc_pages import blocks
from doc_reader import Reader
from doc_shelf import table

GOOD = """\
```sh
calibsft score responses.csv
```

```python
import calibsft

calibsft.score("responses.csv")["overall"]
```

```yaml
pipelines: [[calibsft, rlcr]]
```
"""
MISTAKES = {
    "a flag": ("```sh\ncalibsft score responses.csv --interval\n```", "No such option: --interval"),
    "a command": ("```sh\ncalibsft scores responses.csv\n```", "No such command 'scores'"),
    "a file": ("```sh\ncalibsft score response.csv\n```", "response.csv"),
    "a flag of what is not run": (
        "```sh\ncalibsft policy-server M --prt 8000\n```",
        "No such option: --prt",
    ),
    "a target": ("```sh\nmake dmo\n```", "No rule to make target"),
    "an extra": ("```sh\npip install 'calibsft[server]'\n```", "there is no extra server"),
    "a program": ("```sh\nrm -r runs\n```", "no rule of doc_tables says why"),
    "a name": ("```python\nfrom calibsft import score\nscor(1)\n```", "page.md:2 in line 3: NameError"),
    "an argument": ("```python\nimport calibsft\ncalibsft.score('responses.csv', by='x')\n```", "in line 3"),
    "a value": (
        "```python\nround(0.123, 2)  # 0.13: nearly\n```",
        "the comment says 0.13: nearly, and it is 0.12",
    ),
    "a member": (
        "```python\nfrom calibsft.verify import grade\n\ngrade('exact', '1', '2')  # Grade.CORRECT\n```",
        "and it is",
    ),
    "a part of a value": ('```python\n{"n": 2, "a": 1}  # {"n": 3, …}\n```', "the comment says"),
    "syntax": ("```python\nf(a=1, ...)\n```", "SyntaxError"),
    "output": (
        "```sh\ncalibsft score responses.csv\n```\n\n```text\nmean accuracy\n```",
        "no command of the page prints\nmean accuracy",
    ),
    "a figure": (
        "```sh\ncalibsft score responses.csv\n```\n\n```text\nall rows 601\n```",
        "prints\nall rows 601",
    ),
    "a transcript": ("```console\n$ calibsft score responses.csv\nmean accuracy\n```", "prints otherwise"),
    "a refusal": (
        "```sh\ncalibsft score pool.csv\n```\n\n```text\ncalibsft: pool.csv is empty\n```",
        "ended with 2",
    ),
    "a recipe": ("```yaml\nrl: {stepps: 3}\n```", "stepps"),
    "JSON": ("```json\n{'a': 1}\n```", "Expecting property name"),
    "a language": ("```ruby\nputs 1\n```", "checked by nothing"),
    "a script": ("```bash\ncalibsft rollout --model M --shards 1/8 --out x\n```", "No such option: --shards"),
}


def mistakes(text: str, folder: Path, calibsft: Command) -> list[str]:
    """What is wrong on a page with this text."""
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    (folder / "responses.csv").write_text(table("responses.csv"))
    with ExitStack() as servers:
        return Reader(folder, calibsft, lambda *_: None, servers).read(blocks(page, folder))


def test_a_right_page_has_none(tmp_path: Path, calibsft: Command) -> None:
    assert mistakes(GOOD, tmp_path, calibsft) == []


@pytest.mark.parametrize("text, said", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_found_and_named(text: str, said: str, tmp_path: Path, calibsft: Command) -> None:
    found = mistakes(text, tmp_path, calibsft)
    assert said in "\n".join(found)
