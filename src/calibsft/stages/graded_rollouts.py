"""Rollout folders with their verdicts and evidence, of which one training set is made."""

from dataclasses import dataclass
from pathlib import Path

from calibsft.artifacts import read_manifest, recorded_settings
from calibsft.artifacts.lineage import lineage_in
from calibsft.errors import InputError
from calibsft.responses.formats import Format, get_format
from calibsft.stages.common import verified
from calibsft.stages.stage import Facts
from calibsft.targets.merged import merge
from calibsft.targets.pool import Pool, pool_of_run

Folders = tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class GradedRollouts:
    """Folders of finished stages: rollouts, as many verdicts in the same order, and as many folders of evidence or none."""

    rollouts: Folders
    verdicts: Folders
    evidence: Folders

    def __post_init__(self) -> None:
        """Refuse numbers of folders that do not agree."""
        rollouts = self.rollouts
        if not self.verdicts:
            raise InputError(
                f"{rollouts[0]}: a rollout folder needs its verdicts; add --verdicts with the folder that calibsft verify"
                " wrote"
            )
        for option, given in {"verdicts": self.verdicts, "evidence": self.evidence}.items():
            if given and len(given) != len(rollouts):
                raise InputError(
                    f"{len(rollouts)} rollout folders were given and --{option} {len(given)} times; give it once for each"
                    " rollout folder, in their order"
                )
        if twice := next((folder for folder in rollouts if rollouts.count(folder) > 1), None):
            raise InputError(f"{twice}: this rollout folder is given twice; give it once")

    def inputs(self) -> dict[str, str]:
        """The content hashes of all folders, by stage; those of the second folder of a stage end in -2, and so on."""
        found: dict[str, str] = {}
        for number, pair in enumerate(zip(self.rollouts, self.verdicts, strict=True)):
            found |= {_numbered(stage, number): content for stage, content in verified(*pair).items()}
        for number, folder in enumerate(self.evidence):
            require_evidence(folder, "rollout", found[_numbered("rollout", number)], self.rollouts[number])
        return found | evidence_hashes(self.evidence)

    def format(self, given: Format | None) -> Format:
        """How the responses write their confidence: the format of all verdicts, and `given` if there is one."""
        first, *others = self.verdicts
        graded = _format_of(first)
        for other in others:
            if _format_of(other) != graded:
                raise InputError(
                    f"{other}: these verdicts are for the format '{_format_of(other).name}' and those in {first} for"
                    f" '{graded.name}'; merge rollouts of one format"
                )
        if given is not None and given != graded:
            raise InputError(
                f"{first}: these verdicts are for the format '{graded.name}', not '{given.name}'; leave --from-format out,"
                f" or run calibsft verify with --format {given.name}"
            )
        return graded

    def pool(self) -> Pool:
        pairs = zip(self.rollouts, self.verdicts, strict=True)
        return merge({str(rollouts): pool_of_run(rollouts, verdicts) for rollouts, verdicts in pairs})

    def lineage(self) -> Facts:
        """The lineage of the model that gave the responses, where it is known and the same for all of them."""
        known = [lineage_in(folder) for folder in self.rollouts]
        return known[0] if all(facts == known[0] for facts in known) else {}


def require_evidence(folder: Path, kind: str, content: str, responses: Path) -> None:
    """Refuse evidence of other responses: their keys may be the same."""
    if read_manifest(folder)["inputs"].get(kind) != content:
        raise InputError(
            f"{folder}: this is not evidence of the responses in {responses}; run calibsft evidence {responses} first"
        )


def evidence_hashes(folders: Folders) -> dict[str, str]:
    """The content hashes of folders of evidence."""
    return {
        _numbered("evidence", number): read_manifest(folder)["content_hash"]
        for number, folder in enumerate(folders)
    }


def _numbered(stage: str, number: int) -> str:
    return f"{stage}-{number + 1}" if number else stage


def _format_of(verdicts: Path) -> Format:
    return get_format(recorded_settings(verdicts)["format"])
