"""The playground's tokenizer: one token per character, one per tag, with a chat template.

The template lets the tiny model use the same code as a large one. It takes the usual conversation - the paper's system
prompt, "PROBLEM: 57*77" - and keeps what a model with 76k parameters can use: one mark for the confidence format, and the
exercise; of a judge's prompt, a mark, the exercise and the response to it. Tags are ordinary tokens: special ones would be
missing in decoded text.
"""

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

WORDS = (
    "<think>", "</think>", "<answer>", "</answer>", "<confidence>", "</confidence>",
    "[probability]", "[integer]", "[linguistic]", "low", "medium", "high",
)  # fmt: skip
CHARACTERS = "0123456789.+-*x="
# The mark of a judge's prompt.
SCORING = "!"
PAD, END, UNKNOWN = "<|pad|>", "<|end|>", "<|unknown|>"

CHAT_TEMPLATE = """\
{%- set state = namespace(mark='[probability]') -%}
{%- for message in messages -%}
{%- if message.role == 'system' -%}
{%- if 'single integer' in message.content -%}{%- set state.mark = '[integer]' -%}
{%- elif 'low, medium, or high' in message.content -%}{%- set state.mark = '[linguistic]' -%}
{%- endif -%}
{%- elif message.role == 'user' and '<response>' in message.content -%}
{{- '!' + message.content.split('<question>')[1].split('</question>')[0] + '=' -}}
{{- message.content.split('<response>')[1].split('</response>')[0].replace('‹', '<').replace('›', '>') | trim -}}
{%- elif message.role == 'user' -%}
{{- state.mark + (message.content.split('PROBLEM:') | last | trim) + '=' -}}
{%- else -%}
{{- message.content + '<|end|>' -}}
{%- endif -%}
{%- endfor -%}"""


def build_tokenizer(more_characters: str = "") -> PreTrainedTokenizerFast:
    """An ordinary Hugging Face tokenizer over the world's characters and tags."""
    tokens = (PAD, END, UNKNOWN, *WORDS, *CHARACTERS, *more_characters)
    vocabulary = {token: i for i, token in enumerate(tokens)}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    pieces = "|".join((*WORDS, ".")).replace("[", r"\[").replace("]", r"\]")
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(pieces), behavior="isolated")
    backend.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
        chat_template=CHAT_TEMPLATE,
        padding_side="left",
        model_max_length=64,
    )
