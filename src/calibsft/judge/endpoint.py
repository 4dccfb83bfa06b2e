"""A judge model behind an OpenAI-compatible endpoint: vLLM, SGLang, llama.cpp, or a provider's.

The key comes from `CALIBSFT_JUDGE_API_KEY`, else `OPENAI_API_KEY`. Does not start a server. The connection and its
errors are in `calibsft.endpoint`.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from calibsft.endpoint import Endpoint, Role, Way
from calibsft.judge.rubric import Prompt

if TYPE_CHECKING:
    from openai import OpenAI

ROLE = Role(
    who="the judge",
    gives="chat completions",
    key="CALIBSFT_JUDGE_API_KEY",
    url="judge.url",
    model="judge.model",
    when_slow="raise judge.timeout or lower judge.concurrency",
    when_busy="lower judge.concurrency, or run again later",
    when_refused="try another judge.model",
)

# Ways to ask for a reply without thinking; `LIMIT` is the name of the field for its most tokens.
LIMIT = "limit"
_WAYS: tuple[Way, ...] = (
    {LIMIT: "max_tokens", "extra_body": {"chat_template_kwargs": {"enable_thinking": False}}},
    {LIMIT: "max_tokens"},
    {LIMIT: "max_completion_tokens"},
)


class EndpointJudge:
    """Asks a served model; see `JudgeModel` and, for the parameters, `Endpoint`."""

    def __init__(
        self, url: str, model: str, concurrency: int = 8, timeout: float = 60.0, retries: int = 3
    ) -> None:
        self.name = model
        self._endpoint = Endpoint(ROLE, url, model, _WAYS, concurrency, timeout, retries)

    def ask(
        self, prompts: Sequence[Prompt], tokens: int, on_reply: Callable[[int, str | None], None]
    ) -> None:
        sizes = [len(prompt.user) for prompt in prompts]
        self._endpoint.ask_all(sizes, lambda i: self._reply(prompts[i], tokens), on_reply)

    def _reply(self, prompt: Prompt, tokens: int) -> str | None:
        """The reply, None if the server refuses this one prompt."""

        def create(client: "OpenAI", way: Way) -> Any:
            options = {name: value for name, value in way.items() if name != LIMIT}
            return client.chat.completions.create(
                model=self.name, messages=prompt.messages, temperature=0, **{way[LIMIT]: tokens}, **options
            )

        choice = self._endpoint.choice(create)
        if choice is None:
            return None
        content = getattr(getattr(choice, "message", None), "content", None)
        return content if isinstance(content, str) else ""
