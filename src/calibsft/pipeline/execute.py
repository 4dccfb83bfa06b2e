"""Run the stages of a plan: what is done is skipped, what does not wait for each other runs side by side.

One stage at a time runs in this process, with its live progress line. Where the recipe allows several jobs and
several stages are ready, each gets a process of its own. A stage that fails does not stop those beside it; the
run ends when they have finished, and a rerun goes on from there.
"""

import os
import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

from calibsft import progress
from calibsft.artifacts import (
    MANIFEST,
    SETTINGS,
    StageFolder,
    locked,
    model_inputs,
    read_manifest,
    write_text,
)
from calibsft.errors import InputError
from calibsft.graded import older_grader
from calibsft.pipeline.plan import Stage, plan
from calibsft.pipeline.stages import Run
from calibsft.progress import require_one_process, warn
from calibsft.questions import PLAYGROUND, benchmark_inputs, source_hash
from calibsft.recipe import Recipe

PARENT_CHECK_SECONDS = 1.0
# Workers of a run that was killed end within seconds; the rerun waits so long for the stage that one of them holds.
WORKER_PATIENCE = 10 * PARENT_CHECK_SECONDS
# The sections of a recipe that stages with a training of their own have in their settings.
TRAINED_BY = {"sft", "rl"}


def run_pipeline(recipe: Recipe, root: Path, fresh: bool = False, hash_check: bool = True) -> None:
    """Do what is missing of `recipe` in `root`.

    Parameters
    ----------
    fresh
        Start over every stage whose settings or inputs changed, instead of refusing.
    hash_check
        Refuse to read files of finished stages that are not as their manifests say.
    """
    require_one_process("run")
    stages = plan(Run(recipe, root))
    _require_one_gpu(recipe, root, stages)
    with locked(root):
        if not fresh:
            _refuse_changed(recipe, root, stages)
        write_text(root / SETTINGS, recipe.to_yaml())
        # A launcher's process has one address to meet others at, which two stages side by side cannot share.
        if recipe.jobs == 1 or "WORLD_SIZE" in os.environ:
            for stage in stages:
                perform(recipe, root, stage, fresh, hash_check)
        else:
            _side_by_side(recipe, root, stages, fresh, hash_check)


def _require_one_gpu(recipe: Recipe, root: Path, stages: list[Stage]) -> None:
    """Refuse trainings on several GPUs before the hours of work that come before them."""
    if all(
        (root / stage.name / MANIFEST).is_file() for stage in stages if TRAINED_BY & stage.settings.keys()
    ):
        return
    from calibsft.models import visible_gpus

    gpus = visible_gpus(recipe.device)
    if gpus > 1:
        raise InputError(
            f"{gpus} GPUs are visible and calibsft run trains on one: choose it with CUDA_VISIBLE_DEVICES=0, or do the"
            " trainings with commands of their own, 'accelerate launch -m calibsft sft …' and 'rl …'"
        )


def _refuse_changed(recipe: Recipe, root: Path, stages: list[Stage]) -> None:
    """Refuse changed settings of every stage before the first one begins, and changed inputs as far as they exist."""
    for stage in stages:
        if all((root / name / MANIFEST).is_file() for name in stage.needs):
            folder(recipe, root, stage).check_unchanged()
        else:
            StageFolder(root / stage.name, stage.name, stage.settings).check_unchanged(settings_only=True)


def perform(recipe: Recipe, root: Path, stage: Stage, fresh: bool, hash_check: bool) -> None:
    """Do one stage unless it is done; the stages that it needs are."""
    folder(recipe, root, stage).perform(stage.work, fresh, hash_check, WORKER_PATIENCE)


def folder(recipe: Recipe, root: Path, stage: Stage) -> StageFolder:
    """The stage's folder, with hashes of everything that the stage reads."""
    inputs = {name: read_manifest(root / name)["content_hash"] for name in stage.needs}
    if "questions" in stage.settings and recipe.questions.source != PLAYGROUND:
        inputs["questions"] = source_hash(recipe.questions.source, recipe.questions.data_dir)
    if "eval" in stage.settings:
        inputs |= benchmark_inputs(recipe.eval.benchmarks, recipe.eval.data_dir)
    if "model" in stage.settings and recipe.model != PLAYGROUND:
        inputs |= model_inputs(recipe.model)
    reads = (*(root / name for name in stage.needs), *([Path(recipe.model)] if "model" in inputs else []))
    return StageFolder(root / stage.name, stage.name, stage.settings, inputs, reads, older_grader)


def _side_by_side(recipe: Recipe, root: Path, waiting: list[Stage], fresh: bool, hash_check: bool) -> None:
    done: set[str] = set()
    running: dict[Future[None], Stage] = {}
    failure: BaseException | None = None
    context = get_context("spawn")
    with ProcessPoolExecutor(recipe.jobs, context, _begin_worker, (os.getpid(),)) as pool:
        while running or (waiting and failure is None):
            ready = [stage for stage in waiting if done.issuperset(stage.needs)] if failure is None else []
            alone = not running and (len(ready) == 1 or _is_done(folder(recipe, root, ready[0]), fresh))
            for stage in ready[: 1 if alone else recipe.jobs - len(running)]:
                waiting.remove(stage)
                if alone:
                    perform(recipe, root, stage, fresh, hash_check)
                    done.add(stage.name)
                else:
                    running[pool.submit(perform, recipe, root, stage, fresh, hash_check)] = stage
            for future in wait(running, return_when=FIRST_COMPLETED).done if running else ():
                stage = running.pop(future)
                error = _told(future.exception())
                done.add(stage.name)
                if error is not None and (running or failure):
                    beside = ", ".join(other.name for other in running.values())
                    warn(f"{stage.name}: {error}" + (f"; waiting for {beside}" if beside else ""))
                failure = failure or error
    if failure is not None:
        raise failure


def _told(error: BaseException | None) -> BaseException | None:
    """The error of a stage; a process that was killed from outside cannot say so itself."""
    if isinstance(error, BrokenProcessPool):
        return InputError(
            "a stage's process was killed from outside, perhaps for want of memory; run the same command again to go on,"
            " with --set jobs=1 if memory is short"
        )
    return error


def _is_done(stage: StageFolder, fresh: bool) -> bool:
    return stage.complete and not (fresh and stage.difference())


def _begin_worker(parent: int) -> None:
    """Set up a process that works beside others: plain progress lines, and no life after the parent's death."""
    progress.ALONE = False
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    # A killed parent cannot tell its workers; a rerun must not find one still writing.
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_SECONDS)
    os._exit(1)
