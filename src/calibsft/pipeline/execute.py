"""Run the stages of a plan: finished stages are skipped, independent ones can run in parallel.

A single stage runs in this process, with a live progress line. If the recipe allows several jobs and several stages are
ready, each gets its own process. A stage that fails does not stop the others that run; the run ends when they have
finished, and a rerun continues from there.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, nullcontext
from multiprocessing import get_context
from pathlib import Path

from calibsft import progress
from calibsft.artifacts import MANIFEST, SETTINGS, StageFolder, locked, write_text
from calibsft.errors import InputError
from calibsft.pipeline.launched import launch, write_problem
from calibsft.pipeline.plan import plan, up_to
from calibsft.pipeline.planned import Planned
from calibsft.pipeline.policy_servers import policy_servers
from calibsft.progress import require_one_process, warn
from calibsft.recipe import Recipe, load_recipe

LOGS = "logs"
PARENT_CHECK_SECONDS = 1.0
# Processes of a killed run end within seconds; a rerun waits this long for a stage that one of them still holds.
WORKER_PATIENCE = 10 * PARENT_CHECK_SECONDS


def run_pipeline(
    recipe: Recipe,
    root: Path,
    fresh: bool = False,
    hash_check: bool = True,
    until: Sequence[str] = (),
    on_done: Callable[[Planned], None] = lambda planned: None,
) -> None:
    """Do the unfinished stages of `recipe` in `root`.

    Parameters
    ----------
    fresh : start over every stage whose settings or inputs changed, instead of refusing.
    hash_check : refuse files of finished stages that differ from their manifests.
    until : do only these stages and what they need; all stages if it is empty.
    on_done : called with every stage that is done, also if it was finished before.
    """
    require_one_process("run")
    stages = plan(recipe, root)
    stages = up_to(stages, until) if until else stages
    _require_one_gpu(recipe, root, stages)
    with locked(root):
        if not fresh:
            _refuse_changed(root, stages)
        write_text(root / SETTINGS, recipe.to_yaml())
        # A launcher gives one address to connect its processes, which two stages in parallel cannot share.
        if recipe.jobs == 1 or "WORLD_SIZE" in os.environ:
            for planned in stages:
                perform(root, planned, fresh, hash_check)
                on_done(planned)
        else:
            _side_by_side(recipe.jobs, root, stages, fresh, hash_check, on_done)


def _require_one_gpu(recipe: Recipe, root: Path, stages: list[Planned]) -> None:
    """Refuse trainings on several GPUs now, not after hours of other stages."""
    here = [planned for planned in stages if planned.stage.shared and not planned.launcher]
    if all((root / planned.name / MANIFEST).is_file() for planned in here):
        return
    from calibsft.models import visible_gpus

    gpus = visible_gpus(recipe.device)
    if gpus > 1:
        raise InputError(
            f"{gpus} GPUs are visible and no launcher is named for {here[0].stage.kind}: name one, as in --set"
            f" 'launch.{here[0].stage.kind}=torchrun --nproc_per_node {gpus}', or choose one GPU with CUDA_VISIBLE_DEVICES=0"
        )


def _refuse_changed(root: Path, stages: list[Planned]) -> None:
    """Refuse changed settings of any stage before the first one begins, and changed inputs if they exist already."""
    for planned in stages:
        path, stage = root / planned.name, planned.stage
        if all((root / name / MANIFEST).is_file() for name in planned.needs):
            stage.folder(path, planned.name).check_unchanged()
        else:
            settings = StageFolder(path, stage.kind, stage.shaped_by(), label=planned.name)
            settings.check_unchanged(settings_only=True)


def perform(root: Path, planned: Planned, fresh: bool, hash_check: bool) -> None:
    """Do one stage unless it is finished, by its launcher if it has one; the stages that it needs must be finished."""
    if _is_done(planned, root, fresh):
        _perform_here(root, planned, fresh, hash_check)
        return
    with _servers(root, planned):
        if planned.launcher:
            launch(planned.launcher, root, planned.name, fresh, hash_check)
        else:
            _perform_here(root, planned, fresh, hash_check)


def _perform_here(root: Path, planned: Planned, fresh: bool, hash_check: bool) -> None:
    planned.stage.perform(root / planned.name, planned.name, fresh, hash_check, WORKER_PATIENCE)


def _servers(root: Path, planned: Planned) -> AbstractContextManager[None]:
    """The servers that the stage needs, if any."""
    model = getattr(planned.stage, "model", None)
    if planned.servers is None or model is None:
        return nullcontext()
    return policy_servers(planned.servers, model, root / LOGS / planned.name)


def perform_launched(root: Path, name: str, fresh: bool, hash_check: bool) -> None:
    """Do one stage of the run in `root`, in a process that its launcher has started."""
    planned = next(
        planned for planned in plan(load_recipe(str(root / SETTINGS)), root) if planned.name == name
    )
    try:
        _perform_here(root, planned, fresh, hash_check)
    except InputError as error:
        write_problem(root, name, str(error))
        raise


def _side_by_side(
    jobs: int,
    root: Path,
    waiting: list[Planned],
    fresh: bool,
    hash_check: bool,
    on_done: Callable[[Planned], None],
) -> None:
    done: set[str] = set()
    running: dict[Future[None], Planned] = {}
    failure: BaseException | None = None
    context = get_context("spawn")
    with ProcessPoolExecutor(jobs, context, _begin_worker, (os.getpid(),)) as pool:
        while running or (waiting and failure is None):
            ready = [stage for stage in waiting if done.issuperset(stage.needs)] if failure is None else []
            ready = [stage for stage in ready if not stage.takes_all] or (ready if not running else [])
            alone = not running and (len(ready) == 1 or ready[0].takes_all or _is_done(ready[0], root, fresh))
            for stage in ready[: 1 if alone else jobs - len(running)]:
                waiting.remove(stage)
                if alone:
                    perform(root, stage, fresh, hash_check)
                    done.add(stage.name)
                    on_done(stage)
                else:
                    running[pool.submit(perform, root, stage, fresh, hash_check)] = stage
            for future in wait(running, return_when=FIRST_COMPLETED).done if running else ():
                stage = running.pop(future)
                error = _explained(future.exception())
                done.add(stage.name)
                if error is None:
                    on_done(stage)
                elif running or failure:
                    beside = ", ".join(other.name for other in running.values())
                    warn(f"{stage.name}: {error}" + (f"; waiting for {beside}" if beside else ""))
                failure = failure or error
    if failure is not None:
        raise failure


def _explained(error: BaseException | None) -> BaseException | None:
    """The error of a stage, with a sentence of its own for a process that was killed from outside."""
    if isinstance(error, BrokenProcessPool):
        return InputError(
            "a stage's process was killed from outside, perhaps out of memory; run the same command again to go on,"
            " with --set jobs=1 if memory is short"
        )
    return error


def _is_done(planned: Planned, root: Path, fresh: bool) -> bool:
    folder = planned.stage.folder(root / planned.name)
    return folder.complete and not (fresh and folder.difference())


def _begin_worker(parent: int) -> None:
    """Set up a process that runs in parallel with others: plain progress lines, and it ends with its parent."""
    progress.ALONE = False
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    # A killed parent cannot end its processes, and a rerun must not find one still writing.
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_SECONDS)
    os._exit(1)
