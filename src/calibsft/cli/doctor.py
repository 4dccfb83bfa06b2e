"""`calibsft doctor`: what this environment has, what works in it, and what to do about the rest."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING

from typer import Exit

from calibsft.cli.options import AsJson, print_lines
from calibsft.progress import info
from calibsft.text_table import table_lines

if TYPE_CHECKING:
    from calibsft.doctor import Finding


def doctor(as_json: AsJson = False) -> None:
    """Check this environment: packages, engines, plug-ins, GPUs, free disk, and how to install what is missing.

    ```sh
    calibsft doctor
    ```

    Every library is loaded, which may take a minute. The exit code is 1 if something is broken. What is absent is optional,
    and leaves it 0.
    """
    from calibsft.doctor import findings

    info("doctor: loading every library, which may take a minute")
    found = list(findings())
    print_lines(list(_lines(found)), [asdict(finding) for finding in found], as_json)
    if any(finding.state == "broken" for finding in found):
        raise Exit(1)


def _lines(found: Iterable["Finding"]) -> Iterator[str]:
    """A table for each part, aligned over all of them, with remedies below what needs one."""
    rows = list(found)
    lines = iter(table_lines([[one.state, one.name, one.detail] for one in rows], left=(0, 1, 2)))
    for part, members in groupby(rows, lambda one: one.part):
        yield part
        for one in members:
            yield f"  {next(lines)}"
            if one.remedy:
                yield f"          → {one.remedy}"
    broken = [one.name for one in rows if one.state == "broken"]
    yield f"broken: {', '.join(broken)}" if broken else "nothing is broken; what is absent is optional"
