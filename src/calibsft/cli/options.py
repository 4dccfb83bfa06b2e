"""Options and steps that several commands share."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibsft.artifacts import StageFolder
from calibsft.graded import older_grader
from calibsft.hub import prepare_model
from calibsft.progress import require_one_process
from calibsft.text import printable

if TYPE_CHECKING:
    from calibsft.judge.settings import JudgeSettings

# What several processes of a launcher do together.
SHARED_STAGES = ("sft", "rl")

Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Override a recipe key, e.g. --set rollout.samples=8. Repeatable."
    ),
]
TrainingSet = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a training setting, e.g. --set steps=50 --set lora.rank=16. Repeatable.",
    ),
]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Start over what was made under other settings, instead of refusing.")
]
HashCheck = Annotated[
    bool,
    typer.Option(
        "--hash-check/--no-hash-check",
        help="Refuse to read files of finished stages that are not as their manifests say.",
    ),
]
FormatName = Annotated[
    str,
    typer.Option(
        "--format", help="How confidence is written: probability, probability-0.05, integer or linguistic."
    ),
]
Out = Annotated[Path, typer.Option("--out", help="Folder to write; an unfinished one is resumed.")]
Seed = Annotated[
    int, typer.Option("--seed", min=0, max=2**32 - 1, help="Seed of everything random in this stage.")
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON on standard output, and nothing else there.")
]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:1, …")]
Stop = Annotated[list[str] | None, typer.Option("--stop", help="Text that ends a response. Repeatable.")]
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Folder with the benchmarks' files, read instead of the Hub."),
]
JudgeModel = Annotated[
    str | None,
    typer.Option(
        "--judge",
        help="Model that judges answers of kind `judge`; without one they are matched against aliases.",
    ),
]
JudgeUrl = Annotated[
    str | None,
    typer.Option(
        "--judge-url",
        help="OpenAI-compatible endpoint of the judge, e.g. http://localhost:8000/v1; without one the judge is loaded"
        " here. The key comes from CALIBSFT_JUDGE_API_KEY or OPENAI_API_KEY.",
    ),
]
Malformed = Annotated[
    str | None,
    typer.Option(
        "--malformed",
        help="Responses without a readable confidence: error, drop, or counted (as 0; in decisions, as never confident)."
        " Default: counted, with a warning.",
    ),
]
Conditions = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="COLUMN=VALUE",
        help="Take only the rows where a column has this value, e.g. --where model=small. Repeatable: several values of one"
        " column are alternatives.",
    ),
]
By = Annotated[
    str | None, typer.Option("--by", metavar="COLUMN", help="A result for every value of this column.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace a policy that is there already.")]
Delta = Annotated[float, typer.Option("--delta", help="Probability that the guarantee does not hold.")]
Procedure = Annotated[
    str,
    typer.Option(
        "--procedure",
        help="union, the paper's; or fixed-sequence, which certifies more with the same guarantee.",
    ),
]
PerQuestion = Annotated[
    str,
    typer.Option(
        "--per-question",
        help="Where questions have several responses: calibrate on a random one, or on the first of the file.",
    ),
]
Splits = Annotated[
    int,
    typer.Option(
        "--splits", min=0, help="Random halves on which to try it: calibrate on one, count on the other."
    ),
]
PolicyOut = Annotated[
    Path, typer.Option("--policy", help="Policy file to write, which `calibsft serve` acts on.")
]
LocalModel = Annotated[
    str | None,
    typer.Option("--model", help="The model's name, for the policy; an evaluation knows its own."),
]
LocalFormat = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="How the model writes confidences, for the policy: probability, probability-0.05, integer or linguistic."
        " An evaluation knows its own; else probability.",
    ),
]
OnLocalFailure = Annotated[
    str | None,
    typer.Option(
        "--on-local-failure", help="What a gateway does when the local model fails: defer or error."
    ),
]
Dtype = Annotated[str, typer.Option("--dtype", help="auto, float32, bfloat16 or float16.")]


def perform(
    out: Path,
    name: str,
    settings: dict[str, Any],
    inputs: dict[str, str],
    work: Callable[[Path], dict[str, Any]],
    fresh: bool,
    reads: Iterable[str | Path | None],
    hash_check: bool,
) -> None:
    """Do one stage in `out` unless it is done there already; `reads` names the models, files and folders it reads."""
    if name not in SHARED_STAGES:
        require_one_process(name)

    def prepared(folder: Path) -> dict[str, Any]:
        # Here, and not where the model is loaded: until then libraries are imported for seconds.
        if "model" in settings:
            prepare_model(settings["model"])
        return work(folder)

    paths = tuple(Path(path) for path in reads if path is not None)
    StageFolder(out, name, settings, inputs, paths, older_grader).perform(prepared, fresh, hash_check)


def judge_settings(model: str | None, url: str | None) -> "JudgeSettings":
    """The judge that `--judge` and `--judge-url` name."""
    from calibsft.judge.settings import JudgeSettings
    from calibsft.settings import validated

    return validated(JudgeSettings, {"model": model, "url": url}, "judge")


def listed(text: str) -> tuple[str, ...]:
    """The names in a comma-separated list."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


@dataclass(frozen=True, slots=True)
class Result:
    """What a command found, in words and as data."""

    lines: Sequence[str]
    data: dict[str, Any]


def print_results(results: Mapping[str, Result], by: str | None, as_json: bool) -> None:
    """Results on standard output: the only one, or that of every value of the column `by` under its name."""
    if as_json:
        found = {value: result.data for value, result in results.items()}
        print(json.dumps(found[""] if by is None else {"by": by, "results": found}, indent=2))
        return
    for number, (value, result) in enumerate(results.items()):
        title = [] if by is None else [*([""] if number else []), f"{by} = {value}", ""]
        print("\n".join(printable(line) for line in [*title, *result.lines]))


def print_scores(scores: dict[str, Any], as_json: bool) -> None:
    """Scores on standard output, as JSON or as aligned lines."""
    if as_json:
        print(json.dumps(scores, indent=2))
        return
    from calibsft.report.terminal import budget_lines, estimator_lines, score_lines

    lines = score_lines(scores)
    if scores.get("estimators"):
        lines += ["", *estimator_lines(scores["estimators"])]
    if scores.get("budgets"):
        lines += ["", *budget_lines(scores["budgets"])]
    print("\n".join(printable(line) for line in lines))
