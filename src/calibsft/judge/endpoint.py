"""A judge model behind an OpenAI-compatible endpoint: vLLM, SGLang, llama.cpp, or a provider's.

The key comes from `CALIBSFT_JUDGE_API_KEY`, else `OPENAI_API_KEY`. Does not start a server. The connection and its
errors are in `calibsft.served`.
"""

from collections.abc import Callable, Sequence

from calibsft.judge.rubric import OnReply, Prompt
from calibsft.served.fleet import Fleet
from calibsft.served.role import Role
from calibsft.served.server import Failed, Reply, first_choice

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
CHAT = "/chat/completions"
# Ways to ask for a reply without thinking, the best first: the field for its most tokens, and fields besides. Servers refuse
# fields that they do not know.
WAYS: tuple[tuple[str, Reply], ...] = (
    ("max_tokens", {"chat_template_kwargs": {"enable_thinking": False}}),
    ("max_tokens", {}),
    ("max_completion_tokens", {}),
)


class EndpointJudge:
    """Asks a served model; see `JudgeModel` and, for the parameters, `Fleet`. `timeout` is of one request."""

    def __init__(
        self, url: str, model: str, concurrency: int = 8, timeout: float = 60.0, retries: int = 3
    ) -> None:
        self.name = model
        self._fleet = Fleet(ROLE, (url,), model, concurrency, timeout, retries)
        self._way: tuple[str, Reply] | None = None

    def ask(self, prompts: Sequence[Prompt], tokens: int, on_reply: OnReply) -> None:
        # The shortest prompt goes first and alone: if it is refused, the server is wrong and not the prompt.
        first, *others = sorted(range(len(prompts)), key=lambda i: len(prompts[i].user))
        if self._way is None:
            on_reply(first, self._find_way(prompts[first], tokens))
        else:
            others = [first, *others]
        asked = [prompts[i] for i in others]
        self._ask(
            asked,
            tokens,
            lambda i, outcome: on_reply(others[i], None if isinstance(outcome, Failed) else outcome),
        )

    def _find_way(self, prompt: Prompt, tokens: int) -> str | None:
        """Ask in each way until one is not refused, which is kept; the reply, None if this one prompt is refused."""
        outcomes: list[str | Failed] = []
        for self._way in WAYS:
            self._ask([prompt], tokens, lambda _, found: outcomes.append(found))
            if isinstance(reply := outcomes[-1], str):
                return reply
        self._way = None
        refusal = outcomes[-1]
        if isinstance(refusal, Failed) and refusal.code != "content_filter":
            raise self._fleet.problem(refusal, self._fleet.urls[0])
        return None

    def _ask(
        self, prompts: Sequence[Prompt], tokens: int, on_reply: Callable[[int, str | Failed], None]
    ) -> None:
        def settle(number: int, outcome: str | Failed) -> bool:
            on_reply(number, outcome)
            return False

        requests = [(CHAT, self._body(prompt, tokens)) for prompt in prompts]
        self._fleet.ask_all(requests, lambda _, reply: _content(reply), settle)

    def _body(self, prompt: Prompt, tokens: int) -> Reply:
        limit, fields = self._way or WAYS[0]
        return {"model": self.name, "messages": prompt.messages, "temperature": 0, limit: tokens, **fields}


def _content(reply: Reply) -> str:
    """The text of a reply; empty if it has none."""
    match first_choice(reply).get("message"):
        case {"content": str(content)}:
            return content
    return ""
