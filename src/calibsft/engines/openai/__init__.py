"""The engine `openai`: any OpenAI-compatible server, or several of one model: vLLM, SGLang, llama.cpp, a hosted API.

Prompts are sent as token ids where the server takes them, else as chat messages. The key comes from
`CALIBSFT_ENGINE_API_KEY`, else `OPENAI_API_KEY`. Does not start a server.
"""

import json
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from calibsft.engines.engine import Engine, EngineKind
from calibsft.engines.settings import EngineSettings
from calibsft.settings import Flag, require_plain_address

KEY = "CALIBSFT_ENGINE_API_KEY"


class OpenAiSettings(EngineSettings):
    """Where the model is served, and how hard its servers are pressed."""

    name: Literal["openai"] = "openai"
    urls: Annotated[
        tuple[str, ...],
        Flag("--urls", "--url", always=True),
        Field(
            min_length=1,
            description="addresses of servers of the model, comma-separated, e.g. http://localhost:8000/v1; the key comes"
            f" from {KEY} or OPENAI_API_KEY",
        ),
    ]
    model: Annotated[
        str | None,
        Flag("--served-model", always=True),
        Field(min_length=1, description="the model's name at the servers; default: the only one they list"),
    ] = None
    tokenizer: str | None = Field(
        None, min_length=1, description="checkpoint whose tokenizer is used; default: the model's own"
    )
    api: Literal["auto", "completions", "chat"] = Field(
        "auto",
        description="completions sends token ids, chat sends messages and gives texts only; auto prefers the first",
    )
    concurrency: int = Field(32, ge=1, description="requests under way at the same time, at each server")
    timeout: float = Field(600, gt=0, description="seconds that one request may take")
    retries: int = Field(
        8,
        ge=0,
        description="how often a request is repeated, with growing pauses, before the command gives up",
    )
    token_budget: int | None = Field(
        None,
        ge=1,
        description="tokens of prompts and responses after which the command stops; run it again to go on",
    )
    price: tuple[Annotated[float, Field(ge=0)], ...] = Field(
        (),
        max_length=2,
        description="price of a million prompt tokens and of a million response tokens, for cost_budget",
    )
    cost_budget: float | None = Field(
        None, gt=0, description="cost after which the command stops, in the unit of price"
    )
    extra: dict[str, Any] = Field(
        {}, description="further field of every request, e.g. top_k=20; repeatable", examples=["top_k=20"]
    )

    @model_validator(mode="after")
    def _keys_agree(self) -> Self:
        for url in self.urls:
            require_plain_address(url, "engine.urls", KEY)
        if len(set(self.urls)) < len(self.urls):
            raise ValueError("engine.urls names a server twice")
        if (self.cost_budget is None) != (not self.price) or len(self.price) == 1:
            raise ValueError(
                "engine.cost_budget and engine.price belong together: two prices, of prompts and of responses"
            )
        return self

    def checkpoint(self, model: str) -> str:
        return self.tokenizer or model  # the model itself may be known to the servers alone

    def inputs(self) -> dict[str, str]:
        # Where the model is served does not decide its responses, but what else it is asked does.
        return {"engine.extra": json.dumps(self.extra, sort_keys=True)} if self.extra else {}


def load(settings: OpenAiSettings, model: str, device: str, dtype: str) -> Engine:
    """The servers that `settings` name, after they have shown that they serve `model`."""
    from calibsft.engines.openai.connect import connect

    return connect(settings, model)


OPENAI = EngineKind(OpenAiSettings, load, needs=("aiohttp",))
