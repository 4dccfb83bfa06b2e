"""How evidence is measured."""

from pydantic import Field

from calibsft.settings import Settings


class EvidenceSettings(Settings):
    """How responses are measured; the model that scores them is the judge."""

    embedding_model: str | None = Field(
        None,
        min_length=1,
        description="checkpoint folder or Hub id of the encoder that embeds responses; cluster-share needs one; in a recipe also"
        " run:STAGE, the model that a stage of the same run makes",
    )
    similarity: float = Field(
        0.98, gt=0, le=1, description="cosine similarity from which two responses are in one cluster"
    )
    batch_size: int = Field(
        32, ge=1, description="responses embedded side by side; lower it when memory is short"
    )
