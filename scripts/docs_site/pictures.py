"""Pictures that have a dark twin (`NAME-dark.svg`, `NAME-dark.png`): the site shows the one of its colours.

A `<picture>` follows the colours of the system, which are not always those that the reader chose for the site.
"""

import posixpath
import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

PICTURE = re.compile(r'<picture>\s*<source [^>]*>\s*<img alt="([^"]*)" src="([^"]*)">\s*</picture>')
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)\s#]+)\.(svg|png)\)")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace each picture by a light and a dark one, where both exist."""

    here = posixpath.dirname(page.file.src_uri)

    def both(image: re.Match[str]) -> str:
        alt, name, kind = image.groups()
        dark = f"{name}-dark.{kind}"
        if posixpath.normpath(posixpath.join(here, dark)) not in files.src_uris:
            return image[0]
        return f"![{alt}]({name}.{kind}#only-light)\n![{alt}]({dark}#only-dark)"

    return IMAGE.sub(both, PICTURE.sub(r"![\1](\2)", markdown))
