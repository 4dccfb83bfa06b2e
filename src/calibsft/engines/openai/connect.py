"""Make the engine: check that every server is there and serves the model, and find out how it can be asked.

All of this happens before any response is paid for, so a wrong address, name or tokenizer is reported at once.
"""

from dataclasses import dataclass, field
from typing import Any

from calibsft.engines.engine import Request, Sampling, Tokenizer, Tokens
from calibsft.engines.openai import KEY, OpenAiSettings
from calibsft.engines.openai.engine import Budget, OpenAiEngine
from calibsft.engines.openai.protocols import PLAIN, Chat, Completions, Way
from calibsft.errors import InputError
from calibsft.hub import name_and_revision
from calibsft.progress import info
from calibsft.served.checks import SAMPLE_TEXT, Probe, served_context
from calibsft.served.fleet import Fleet
from calibsft.served.role import Role
from calibsft.served.server import Failed, Reply, first_choice

ROLE = Role(
    who="the engine's server",
    gives="completions",
    key=KEY,
    url="engine.urls",
    model="engine.model",
    when_slow="raise engine.timeout or lower engine.concurrency",
    when_busy="lower engine.concurrency, or run again later",
    when_refused="choose another engine",
)
# Ways to ask for chat, the best first: the name of the field for the most tokens, and fields that hosted APIs refuse.
CHATS: tuple[tuple[str, Reply], ...] = (
    ("max_tokens", PLAIN),
    ("max_tokens", {}),
    ("max_completion_tokens", {}),
)


def connect(settings: OpenAiSettings, model: str) -> OpenAiEngine:
    """An engine of the servers in `settings`, which must serve `model`."""
    from calibsft.models import load_tokenizer, named_end_ids

    checkpoint = settings.checkpoint(model)
    tokenizer = load_tokenizer(checkpoint)
    end_ids = named_end_ids(tokenizer, checkpoint)
    limits = (settings.concurrency, settings.timeout, settings.retries)
    fleet = Fleet(ROLE, settings.urls, settings.model or name_and_revision(model)[0], *limits)
    checked = fleet.ask_each(
        lambda server: _Check(Probe(server, settings.retries), settings, model, tokenizer, end_ids).run()
    )
    ways = [way for way, _ in checked]
    if any(way != ways[0] for way in ways):
        raise InputError(
            "the servers in engine.urls name the model differently or take different requests; use servers of one kind"
        )
    _report_limits(ways[0])
    fleet.model = ways[0].common["model"]
    contexts = [context for _, context in checked if context is not None]
    return OpenAiEngine(fleet, ways[0], tokenizer, end_ids, min(contexts, default=None), Budget(settings))


@dataclass(slots=True)
class _Check:
    """The check of one server."""

    probe: Probe
    settings: OpenAiSettings
    model: str
    tokenizer: Tokenizer
    end_ids: Tokens
    common: Reply = field(default_factory=dict)

    async def run(self) -> tuple[Way, int | None]:
        """How the server can be asked, and its context in tokens."""
        try:
            own = name_and_revision(self.model)[0]
            name, listed = await self.probe.model(ROLE, self.settings.model, own)
            self.common = {**self.settings.extra, "model": name}
            way = await (self._chat() if self.settings.api == "chat" else self._completions())
        except Failed as failure:
            name, retries = (
                self.settings.model or self.model,
                self.settings.retries if self.probe.reached else 0,
            )
            raise ROLE.problem(failure, self.probe.server.url, name, self.settings.timeout, retries) from None
        return way, served_context(listed)

    async def _completions(self) -> Way:
        """Completions of token ids, if the server gives them; else chat, unless the settings exclude that."""
        # As text, so that the server's own tokenizer shows itself.
        probe = self.common | {"prompt": SAMPLE_TEXT, "max_tokens": 1, "temperature": 0, "logprobs": 1}
        for exact in ({"return_token_ids": True}, {}):
            try:
                reply = await self.probe.ask("POST", "/completions", probe | exact)
                choice = first_choice(reply)
                self._compare(choice.get("prompt_token_ids"), reply.get("usage"))
                gives_ids = isinstance(choice.get("token_ids"), list)
                way = Completions(self.tokenizer, self.end_ids, gives_ids, self.common)
                # A request as all others will be: some servers take texts only, or refuse fields that they do not know.
                asked = way.body(Request(self._ids(), (0,)), 0, Sampling(0, max_new_tokens=1))
                first_choice(await self.probe.ask("POST", way.path, asked))
            except Failed as failure:
                if failure.status in (404, 405, 501) or failure.refused:
                    continue
                raise
            return way
        if self.settings.api == "completions":
            raise InputError(
                f"{ROLE.who} at {self.probe.server.url} takes no prompts as token ids; set engine.api to chat"
            )
        return await self._chat()

    def _compare(self, theirs: Any, usage: Any) -> None:
        """Refuse a server whose tokenizer splits a text otherwise; servers that give no ids at least count them."""
        ours = list(self._ids())
        count = usage.get("prompt_tokens") if isinstance(usage, dict) else None
        same = theirs == ours if isinstance(theirs, list) else count in (None, len(ours))
        if not same:
            source = self.settings.tokenizer or self.model
            raise InputError(
                f"{ROLE.who} at {self.probe.server.url} has another tokenizer than {source}; serve that model, or name the"
                " served one with --model or engine.tokenizer"
            )

    def _ids(self) -> Tokens:
        return tuple(self.tokenizer(SAMPLE_TEXT, verbose=False)["input_ids"])

    async def _chat(self) -> Way:
        refusal = Failed("reply")
        for limit, fields in CHATS:
            common = {**fields, **self.common}
            probe = {"messages": [{"role": "user", "content": "1+1="}], limit: 1}
            try:
                first_choice(await self.probe.ask("POST", "/chat/completions", {**common, **probe}))
            except Failed as failure:
                if not failure.refused:
                    raise
                refusal = failure
                continue
            return Chat(self.tokenizer, limit, common)
        raise refusal


def _report_limits(way: Way) -> None:
    """Report at once what is impossible with what the servers give."""
    if isinstance(way, Chat):
        info(
            "the servers give texts only: no log-probabilities (so no target or estimate that needs them), no token budgets"
            " and no forced answers"
        )
    elif not way.exact:
        info(
            "the servers cut stop strings off, so responses are cut here, and a seed may not repeat a response"
        )
