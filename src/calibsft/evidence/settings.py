"""How evidence is measured."""

from typing import ClassVar

from pydantic import Field

from calibsft.settings import Settings


class EvidenceSettings(Settings):
    """How responses are measured; the model that scores them is the judge."""

    title: ClassVar[str] = "Evidence"

    embedding_model: str | None = Field(
        None,
        min_length=1,
        description="encoder that embeds responses, for cluster-share: checkpoint folder or Hub id; in a recipe also run:STAGE,"
        " the model that this stage of the run makes",
    )
    similarity: float = Field(
        0.98,
        gt=0,
        le=1,
        description="put two responses into one cluster if their cosine similarity is at least this",
    )
    batch_size: int = Field(
        32, ge=1, description="responses embedded at the same time; lower it when out of memory"
    )
