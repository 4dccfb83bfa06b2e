"""How settings name a confidence format."""

from typing import Annotated

from pydantic import AfterValidator, Field

from calibsft.responses.formats import FORMATS, get_format

DEFAULT_FORMAT = next(iter(FORMATS))
FormatName = Annotated[
    str,
    AfterValidator(lambda name: get_format(name).name),
    Field(description=f"how confidence is written: {', '.join(FORMATS)}"),
]
