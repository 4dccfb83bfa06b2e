"""How evidence is measured."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from calibsft.errors import InputError
from calibsft.settings import Metavar, Settings

AUTO = "auto"


def _cosine(value: Any) -> float | str:
    try:
        number = value if value == AUTO else float(value)
    except (TypeError, ValueError):
        number = 0.0
    if number != AUTO and not 0 < number <= 1:
        raise InputError(
            f"evidence.similarity = {value!r} is not a cosine; write a number above 0 and at most 1, or {AUTO}"
        )
    return number


Similarity = Annotated[float | Literal["auto"], BeforeValidator(_cosine), Metavar(f"COSINE|{AUTO}")]


class EvidenceSettings(Settings):
    """How responses are measured; the model that scores them is the judge."""

    title: ClassVar[str] = "Evidence"

    embedding_model: str | None = Field(
        None,
        min_length=1,
        description="encoder that embeds responses, for cluster-share: checkpoint folder or Hub id; in a recipe also run:STAGE,"
        " the model that this stage of the run makes",
    )
    similarity: Similarity = Field(
        0.98,
        description="put two responses into one cluster if their cosine similarity is at least this; auto takes the one that"
        " best tells pairs with the same answer from pairs with different answers, and prints it",
    )
    batch_size: int = Field(
        32, ge=1, description="responses embedded at the same time; lower it when out of memory"
    )
