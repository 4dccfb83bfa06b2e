"""The transformers engine: what it samples does not depend on how it samples it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from calibsft.engines.engine import Completion, Request, Sampling, sample_seed
from calibsft.engines.transformers.engine import TransformersEngine
from calibsft.errors import InputError
from calibsft.responses.spans import decode
from small_models import other_models

PROMPTS = ("[probability]12*34=", "[integer]99*98+11=", "[linguistic]7=", "[probability]10x10=")


def requests(tokenizer: PreTrainedTokenizerBase, samples: int) -> list[Request]:
    return [
        Request(
            tuple(tokenizer(text)["input_ids"]), tuple(sample_seed(0, "d", text, i) for i in range(samples))
        )
        for text in PROMPTS
    ]


def ids(results: list[list[Completion]]) -> list[list[tuple[int, ...]]]:
    return [[completion.token_ids for completion in row] for row in results]


@pytest.fixture(scope="module")
def tokenizer(short_base: Path) -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(short_base)


@pytest.fixture(scope="module")
def model(short_base: Path) -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(short_base)


def test_samples_do_not_depend_on_the_batch_around_them(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    wanted, sampling = requests(tokenizer, 6), Sampling(max_new_tokens=30, top_p=0.95)
    together = ids(TransformersEngine(model, tokenizer, max_rows=100).generate(wanted, sampling))
    for max_rows in (1, 4, 7):
        assert ids(TransformersEngine(model, tokenizer, max_rows).generate(wanted, sampling)) == together
    alone = ids(TransformersEngine(model, tokenizer).generate([wanted[2]], sampling))
    assert alone == [together[2]]


def test_different_samples_differ_and_a_seed_repeats(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    request = requests(tokenizer, 20)[0]
    engine = TransformersEngine(model, tokenizer)
    first, again = (ids(engine.generate([request], Sampling(max_new_tokens=30)))[0] for _ in range(2))
    assert first == again
    assert len(set(first)) > 10


def test_greedy_equals_generate_of_the_library(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    wanted = [Request(request.prompt_ids, (0,)) for request in requests(tokenizer, 1)]
    ours = ids(
        TransformersEngine(model, tokenizer).generate(wanted, Sampling(temperature=0.0, max_new_tokens=30))
    )
    for request, row in zip(wanted, ours, strict=True):
        prompt = torch.tensor([request.prompt_ids])
        theirs = model.generate(
            prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=30
        )
        assert row[0] == tuple(theirs[0, prompt.shape[1] :].tolist())


def test_logprobs_and_entropies_are_the_models_own_at_temperature_one(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    sampling = Sampling(temperature=0.6, top_p=0.9, max_new_tokens=30)
    for request, row in zip(
        requests(tokenizer, 3),
        TransformersEngine(model, tokenizer).generate(requests(tokenizer, 3), sampling),
        strict=True,
    ):
        for completion in row:
            sequence = torch.tensor([request.prompt_ids + completion.token_ids])
            with torch.no_grad():
                logprobs_T_V = model(sequence).logits[0].log_softmax(-1)[len(request.prompt_ids) - 1 : -1]
            expected = logprobs_T_V.gather(-1, torch.tensor(completion.token_ids)[:, None]).squeeze(-1)
            entropies = -(logprobs_T_V.exp() * logprobs_T_V).sum(-1)
            assert torch.allclose(torch.from_numpy(completion.logprobs), expected, atol=1e-4)
            assert torch.allclose(torch.from_numpy(completion.entropies), entropies, atol=1e-4)


def test_finished_means_that_the_end_token_or_a_stop_string_came(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    engine = TransformersEngine(model, tokenizer)
    ended = [c for row in engine.generate(requests(tokenizer, 8), Sampling(max_new_tokens=30)) for c in row]
    assert any(c.finished for c in ended)
    for completion in ended:
        assert completion.finished == (completion.token_ids[-1] == tokenizer.eos_token_id)
        assert tokenizer.eos_token_id not in completion.token_ids[:-1]
    cut = [c for row in engine.generate(requests(tokenizer, 8), Sampling(max_new_tokens=3)) for c in row]
    assert all(len(c.token_ids) == 3 and not c.finished for c in cut)


def test_a_stop_string_over_several_tokens_ends_a_response_and_stays_in_it(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    engine = TransformersEngine(model, tokenizer)
    free = [c for row in engine.generate(requests(tokenizer, 8), Sampling(max_new_tokens=30)) for c in row]
    stops = ("</think><answer>", "no such text")
    stopped = [
        c
        for row in engine.generate(requests(tokenizer, 8), Sampling(max_new_tokens=30, stop=stops))
        for c in row
    ]
    cut = 0
    for with_stop, without in zip(stopped, free, strict=True):
        text, whole = decode(tokenizer, with_stop.token_ids), decode(tokenizer, without.token_ids)
        if stops[0] in whole:
            assert text == whole[: whole.index(stops[0]) + len(stops[0])] and with_stop.finished
            cut += 1
        else:
            assert text == whole
    assert cut > 0


def test_every_completion_is_told_once(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    seen: dict[tuple[int, int], Completion] = {}

    def tell(request: int, sample: int, completion: Completion) -> None:
        assert (request, sample) not in seen
        seen[request, sample] = completion

    engine = TransformersEngine(model, tokenizer, max_rows=5)
    results = engine.generate(requests(tokenizer, 6), Sampling(max_new_tokens=30), tell)
    assert seen == {(i, j): completion for i, row in enumerate(results) for j, completion in enumerate(row)}


def test_what_is_done_is_left_out_by_whole_batches_and_changes_no_figure(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    engine = TransformersEngine(model, tokenizer, max_rows=4)  # one request a batch
    wanted = [Request(request.prompt_ids, tuple(range(4))) for request in requests(tokenizer, 6)[:3]]
    whole = engine.generate(wanted, Sampling(max_new_tokens=30))
    wanted[0] = replace(wanted[0], done=frozenset(range(4)))
    wanted[1] = replace(wanted[1], done=frozenset({2}))
    nothing, *rest = engine.generate(wanted, Sampling(max_new_tokens=30))
    assert nothing == []
    for before, after in zip(whole[1:], rest, strict=True):
        assert [c.token_ids for c in after] == [c.token_ids for c in before]
        for one, other in zip(before, after, strict=True):
            assert np.array_equal(one.logprobs, other.logprobs)


def test_sampling_stops_at_the_context_of_the_model(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    engine = TransformersEngine(model, tokenizer)
    engine.end_ids = (len(tokenizer) + 5,)  # nothing ends a response
    request = requests(tokenizer, 2)[0]
    for completion in engine.generate([request], Sampling(max_new_tokens=500))[0]:
        assert len(request.prompt_ids) + len(completion.token_ids) == model.config.max_position_embeddings
        assert not completion.finished


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma3"])
def test_other_architectures_sample_the_same_in_any_batch(
    name: str, tokenizer: PreTrainedTokenizerBase
) -> None:
    model = other_models(len(tokenizer), tokenizer.eos_token_id)[name].eval()
    wanted, sampling = requests(tokenizer, 5), Sampling(max_new_tokens=24)
    together = TransformersEngine(model, tokenizer, max_rows=100).generate(wanted, sampling)
    assert ids(TransformersEngine(model, tokenizer, max_rows=3).generate(wanted, sampling)) == ids(together)
    for request, row in zip(wanted, together, strict=True):
        for completion in row:
            sequence = torch.tensor([request.prompt_ids + completion.token_ids])
            with torch.no_grad():
                logprobs_T_V = model(sequence).logits[0].log_softmax(-1)[len(request.prompt_ids) - 1 : -1]
            expected = logprobs_T_V.gather(-1, torch.tensor(completion.token_ids)[:, None]).squeeze(-1)
            assert torch.allclose(torch.from_numpy(completion.logprobs), expected, atol=1e-4)


def test_a_tokenizer_without_an_end_token_is_refused(model: PreTrainedModel, short_base: Path) -> None:
    endless = AutoTokenizer.from_pretrained(short_base)
    endless.eos_token = None
    with pytest.raises(InputError, match=r"no end-of-sequence token.*tokenizer_config.json"):
        TransformersEngine(model, endless)
