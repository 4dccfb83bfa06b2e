"""A stage whose result can go to the Hub when it is done."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from calibsft.errors import InputError
from calibsft.progress import FIRST_PROCESS
from calibsft.publishing import Kind, make_repository, upload
from calibsft.settings import Mark, Metavar
from calibsft.stages.stage import Stage


class PublishedStage(Stage):
    """A stage with the option `--push-to-hub`.

    A stage that was done before is uploaded too, so giving the option later sends what an evaluation
    has added to the card.
    """

    repository: ClassVar[Kind] = "model"
    published: ClassVar[str] = "model"  # the part of the stage's folder that is uploaded
    published_files: ClassVar[Sequence[str] | None] = None  # patterns of its files; None for all

    push_to_hub: Annotated[
        str | None,
        Mark.ADJUSTABLE,
        Metavar("ORG/NAME"),
        Field(description="upload the result to this repository on the Hub; a new repository is private"),
    ] = None
    public: Annotated[bool, Mark.ADJUSTABLE, Field(description="make a new repository public")] = False

    def check(self) -> None:
        super().check()
        if self.public and not self.push_to_hub:
            raise InputError("public means nothing without --push-to-hub; give both, or leave it out")

    def before(self) -> None:
        if self.push_to_hub and FIRST_PROCESS:
            make_repository(self.push_to_hub, self.repository, self.public)

    def after(self, path: Path) -> None:
        if self.push_to_hub and FIRST_PROCESS:
            upload(path / self.published, self.push_to_hub, self.repository, self.published_files)
