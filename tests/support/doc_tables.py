"""How the tests' way through the documentation differs from a reader's: every difference is in a table here, with its reason.

A test fails when an entry fits nothing any more, and when a command can be run by nobody and is in no table.
"""

import re
from dataclasses import dataclass
from importlib.util import find_spec

# The checks of a command that is not run, by name; `doc_checks` has them.
PARSED, MAKE, EXTRAS, FILE, SHOWN = "parsed", "make", "extras", "file", "shown"


@dataclass(frozen=True)
class Rule:
    """What is done with the commands that a pattern finds.

    Attributes
    ----------
    flags
        Options at the end of the command.
    replaced
        What stands in place of what the pattern finds.
    check
        In place of running it.
    unless
        A package with which the rule does not hold: then it can run.
    """

    pattern: str
    reason: str
    flags: str = ""
    replaced: str | None = None
    check: str = ""
    unless: str = ""

    def fits(self, command: str) -> bool:
        return re.search(self.pattern, command, re.MULTILINE) is not None

    def holds(self) -> bool:
        return not self.unless or find_spec(self.unless) is None


# Run with other words: fewer steps, other engines.
CHANGED = (
    Rule(r"^curl ", "so that a refused request is an error", replaced="curl --silent --show-error --fail-with-body "),
    Rule(r'(?<=SFTConfig)\("out"\)', "no GPU here, and three epochs take long",
         replaced='("out", max_steps=2, bf16=False, use_cpu=True)'),
    Rule(r'(?<=GRPOConfig)\("out"\)', "the same",
         replaced='("out", max_steps=1, bf16=False, use_cpu=True, max_completion_length=32)'),
    Rule(
        r"(?<=calibsft run qwen2\.5-1\.5b) --until \S+",
        "--dry-run, which is added below, shows all stages",
        replaced="",
    ),
    Rule(r"-m calibsft sft .*|^calibsft sft ", "180 steps of 256 responses are for a GPU",
         flags="--set steps=2 --set batch_size=4 --set micro_batch_size=4 --set max_tokens=64"),
    Rule(r"^calibsft rl ", "hundreds of steps of 64 questions are for GPUs",
         flags="--set steps=1 --set questions=4 --set max_new_tokens=40"),
    Rule(r"^calibsft rollout .*--samples 50|^calibsft rollout .*-n 50", "fifty samples tell no more than eight here",
         flags="--samples 8"),
    Rule(r"\bcalibsft run (?!.*(--dry-run|my\.yaml))", "a whole run takes minutes, others hours; tests/e2e/test_run_recipe.py runs one",
         flags="--dry-run"),
    Rule(r"^calibsft reproduce(?!.*--dry-run)", "the study takes two hours; tests/e2e/test_reproduce.py runs a small one",
         flags="--dry-run"),
    Rule(r"--engine vllm(?!.*tensor-parallel)", "vLLM needs an environment of its own; tests/contract/test_engines.py runs it",
         replaced="--engine transformers"),
    Rule(r"^lm_eval ", "the small model reads 64 tokens", flags="--gen_kwargs max_gen_toks=16"),
    Rule(r"^accelerate launch", "one process: two would share a core", replaced="accelerate launch --num_processes 1 --cpu"),
    Rule(r"chatcmpl-…", "the id of a response that the gateway really gave", replaced="RESPONSE_ID"),
)  # fmt: skip

# Not run, but checked as `check` says.
NOT_RUN = (
    Rule(r"^pip install ", "changes the environment", check=EXTRAS),
    Rule(r"^make ", "makes an environment, or takes minutes", check=MAKE),
    Rule(r"^vllm serve ", "needs vLLM; tests/contract starts it with scripts/engines-env", check=SHOWN),
    Rule(r"--engine-tensor-parallel ", "is an option of vLLM's engine alone", check=PARSED),
    Rule(r"^calibsft policy-server ", "needs vLLM; tests/contract/test_policy_server.py runs it", check=PARSED),
    Rule(r"^calibsft validate --benchmark all", "needs the data of all benchmarks", check=PARSED),
    Rule(r"^scripts/", "downloads a model, or reads what hours of runs left", check=FILE),
    Rule(r"^opentelemetry-instrument ", "needs the extra otel; tests/unit/gateway/test_telemetry.py records traces", check=PARSED),
    Rule(r"^inspect view", "shows a page until it is stopped", check=SHOWN),
    Rule(r"^inspect eval ", "needs Inspect", check=SHOWN, unless="inspect_ai"),
    Rule(r"^lm_eval ", "needs lm-eval", check=SHOWN, unless="lm_eval"),
    Rule(r"^vf-eval ", "needs verifiers; tests/contract/test_verifiers.py runs the environment", check=SHOWN),
    Rule(r"\blitellm --config", "needs LiteLLM; tests/contract/test_litellm.py starts it", check=SHOWN),
    Rule(r"^bash exports/", "trains on GPUs with verl; tests/contract/test_verl.py runs it", check=SHOWN),
)  # fmt: skip

# Python blocks that need packages outside the dev extra, by what they contain.
PYTHON_NOT_RUN = (
    Rule(r"^from inspect_ai import", "needs Inspect", unless="inspect_ai"),
    Rule(r"^import ray$", "needs Ray and GPUs"),
)

# Text blocks that no command prints, by a part of them.
NOT_PRINTED = (Rule(r"Question ─► Rollout", "a drawing"),)

# Pages whose figures are of trained models, or of a file of the reader's own: their digits differ here.
OTHER_DIGITS = (
    Rule(r"^docs/real-models\.md", "real models"),
    Rule(r"^docs/(decide|diagnose|tutorials/first-run|tutorials/fine-tune-a-model)\.md", "the demo's models"),
    Rule(r"^docs/monitor\.md", "a file of the reader's own"),
)

# Pages that `make long` follows; `make test` takes their commands apart.
LONG = (Rule(r"^docs/report\.md", "six reports with all their figures, a quarter of all pages' time"),)

# Pages whose steps only make sense with a whole run of the demo; `pytest -m slow` makes one, and follows them as they stand.
NEED_THE_DEMO = (Rule(r"^docs/tutorials/fine-tune-a-model\.md", "fine-tunes the demo's own base model"),)

# YAML blocks that are no part of a recipe.
NO_RECIPE: tuple[Rule, ...] = ()

TABLES = {
    "CHANGED": CHANGED,
    "NOT_RUN": NOT_RUN,
    "PYTHON_NOT_RUN": PYTHON_NOT_RUN,
    "NOT_PRINTED": NOT_PRINTED,
    "OTHER_DIGITS": OTHER_DIGITS,
    "LONG": LONG,
    "NO_RECIPE": NO_RECIPE,
}
