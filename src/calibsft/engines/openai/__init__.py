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
        Flag("--urls", "--url", always=True, metavar="URL,…"),
        Field(
            min_length=1,
            description="addresses of OpenAI-compatible servers of the model, comma-separated, e.g. http://localhost:8000/v1;"
            f" the API key is read from {KEY} or OPENAI_API_KEY",
        ),
    ]
    model: Annotated[
        str | None,
        Flag("--served-model", always=True, metavar="MODEL"),
        Field(
            min_length=1, description="the model's name on the servers; default: the only one that they list"
        ),
    ] = None
    tokenizer: str | None = Field(
        None, min_length=1, description="checkpoint whose tokenizer is used; default: the model's own"
    )
    api: Literal["auto", "completions", "chat"] = Field(
        "auto",
        description="how servers are asked: completions (by token ids), chat (by messages; no token probabilities), or auto (completions"
        " where a server has them)",
    )
    concurrency: int = Field(32, ge=1, description="simultaneous requests to each server")
    timeout: float = Field(600, gt=0, description="seconds until a request counts as failed")
    retries: int = Field(
        8,
        ge=0,
        description="how often a failed request is repeated, after growing pauses, before the command stops",
    )
    token_budget: int | None = Field(
        None,
        ge=1,
        description="stop after so many tokens of prompts and responses; the same command goes on from there",
    )
    price: tuple[Annotated[float, Field(ge=0)], ...] = Field(
        (),
        max_length=2,
        description="two prices, of a million prompt tokens and of a million response tokens, e.g. 0.5,1.5; for the cost budget",
    )
    cost_budget: float | None = Field(None, gt=0, description="stop at this cost, in the unit of the prices")
    extra: dict[str, Any] = Field(
        {}, description="another field of every request, e.g. top_k=20; repeatable", examples=["top_k=20"]
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
