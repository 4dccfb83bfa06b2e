"""What tells whether a server has the right model: a text that shows its tokenizer, and what it says about its context."""

from calibsft.served.server import Reply

# Digits, tags, spaces, accents and symbols: two tokenizers that split all of it alike are the same for our purposes.
SAMPLE_TEXT = (
    "<think>12*34=408, so 3.14159 < 100.\n\n\tVérifions: l'été à 20°C…</think> <answer>-7</answer>日本語🙂"
)


def served_context(listed: Reply) -> int | None:
    """The context of a model as vLLM and llama.cpp list it; None if the server does not say."""
    meta = listed.get("meta")
    lengths = listed.get("max_model_len"), meta.get("n_ctx") if isinstance(meta, dict) else None
    return next((length for length in lengths if type(length) is int and length > 0), None)
