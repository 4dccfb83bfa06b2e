"""What every stage of a plan puts on which GPU, and the refusal of what cannot fit."""

import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from calibsft.errors import InputError
from calibsft.estimates.counts import Counts
from calibsft.estimates.layouts import Layout, layout_of
from calibsft.estimates.sampling_memory import engine_parts, server_parts
from calibsft.estimates.shapes import Shape, shape_of
from calibsft.estimates.training_memory import HALF, PASSING, SAMPLING, Parts, Training, peak, training_parts
from calibsft.judge.settings import JudgeSettings
from calibsft.launchers import ServerLaunch
from calibsft.pipeline import Planned
from calibsft.stages.evaluate import EvalStage
from calibsft.stages.rl import RlStage
from calibsft.stages.rollout import RolloutStage
from calibsft.stages.sft import SftStage

GB = 10**9
# Seconds for the driver's answer.
PATIENCE = 30
# Tokens of a prompt where settings do not limit them.
PROMPT = 2048
CUT = "cut the training over more GPUs (launch.{kind})"
ADAPT = f"{CUT}, or train adapters ({{kind}}.lora)"
REMEDIES = {
    **dict.fromkeys(("weights", "copies", "reference"), CUT),
    **dict.fromkeys(("master weights", "gradients", "optimiser"), ADAPT),
    **dict.fromkeys(PASSING, "lower {kind}.micro_batch_size, or set {kind}.gradient_checkpointing"),
    SAMPLING: "lower engine.max_rows, or let servers sample (rl.policy: served)",
    "copy for servers": CUT,
    "server": "give the servers other GPUs (launch.servers.gpus) or a smaller share of this one"
    " (--vllm gpu-memory-utilization in launch.servers.command)",
    "judge's weights": "lower the engine's share of the GPU (engine.gpu_memory), or serve the judge elsewhere (judge.url)",
}
# For what an engine in this process holds.
ENGINE = "take an engine that spreads the model over more GPUs or decodes fewer responses at a time (calibsft ls engines)"


@dataclass(frozen=True, slots=True)
class Load:
    """The memory of a stage on GPUs with the same parts; `layout` is None if no training is among them."""

    stage: str
    kind: str
    gpus: tuple[str, ...]
    parts: Parts
    layout: Layout | None

    @property
    def peak(self) -> float:
        return peak(self.parts)


def gpu_memory(setting: float | None) -> float | None:
    """The bytes of one GPU: as the recipe says, or those of the first one here; None if there is none."""
    return _own_memory() if setting is None else setting * GB


@cache
def _own_memory() -> float | None:
    # Asked of the driver, since a dry run loads no torch.
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    query = [program, "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    first = done.stdout.partition("\n")[0].strip()
    return float(first) * 2**20 if done.returncode == 0 and first.isdecimal() else None


def loads_of(planned: Planned, counts: Counts, shape: Shape, memory: float | None) -> list[Load] | None:
    """The memory of a stage, for every set of GPUs with equal parts; none if it needs no GPU, None if it is not known."""
    stage = planned.stage
    by_gpu: dict[str, Parts] = defaultdict(dict)
    layout = None
    if isinstance(stage, SftStage | RlStage):
        layout = layout_of(planned.launcher)
        if layout is None:
            return None
        parts = training_parts(shape, layout, training_of(stage, layout))
        _put_training(by_gpu, layout, parts)
        if planned.servers is not None and isinstance(stage, RlStage):
            longest = stage.rl.max_prompt_tokens + stage.rl.max_new_tokens
            _put_servers(by_gpu, planned.servers, shape, longest, memory)
    elif isinstance(stage, RolloutStage | EvalStage) and (taken := stage.engine.occupied()):
        parts = engine_parts(shape, taken, stage.dtype, PROMPT + counts.longest, memory)
        by_gpu.update({str(gpu): dict(parts) for gpu in range(taken.gpus)})
        if isinstance(stage, EvalStage):
            by_gpu["0"].update(_judge_parts(stage.judge))
    return list(_grouped(planned, by_gpu, layout))


def training_of(stage: SftStage | RlStage, layout: Layout) -> Training:
    """What the memory of a training stage depends on."""
    if isinstance(stage, SftStage):
        sft = stage.sft
        rows = min(sft.micro_batch_size, max(sft.batch_size // layout.processes, 1))
        rank = sft.lora.rank if sft.lora else None
        return Training(rows, sft.max_tokens, rank, sft.gradient_checkpointing)
    rl, served = stage.rl, stage.rl.policy == "served"
    rows = min(rl.micro_batch_size, max(rl.questions // rl.updates * rl.group_size // layout.processes, 1))
    by_gpus = rl.servers is not None and rl.servers.weights == "nccl"
    taken = None if served else stage.engine.occupied()
    return Training(
        rows,
        rl.max_prompt_tokens + rl.max_new_tokens,
        rl.lora.rank if rl.lora else None,
        rl.gradient_checkpointing,
        # Without adapters the model in training is its own starting model.
        has_reference=rl.kl > 0 and rl.lora is None,
        # Weights that were cut, or merged with adapters, are put together in the machine's memory.
        sends_copy=served and (by_gpus or not (layout.is_cut or rl.lora)),
        sampled=(taken.rows or 0) if taken else 0,
    )


def _put_training(by_gpu: dict[str, Parts], layout: Layout, parts: Parts) -> None:
    for gpu in layout.gpus:
        by_gpu[gpu].update(parts)
    for gpu in layout.gpus[1:]:
        by_gpu[gpu].pop("copy for servers", None)  # the first process sends


def _put_servers(
    by_gpu: dict[str, Parts], servers: ServerLaunch, shape: Shape, tokens: int, memory: float | None
) -> None:
    for given in servers.gpus:
        named = given.split(",") if given else ["0"]
        for gpu in named:
            found = server_parts(shape, len(named), servers.command, tokens, memory)["server"]
            by_gpu[gpu]["server"] = by_gpu[gpu].get("server", 0.0) + found


def _judge_parts(judge: JudgeSettings) -> Parts:
    """The weights of a judge that is loaded here, if its shape is known."""
    shape = shape_of(judge.model) if judge.model and not judge.url else None
    return {"judge's weights": float(HALF * shape.parameters)} if shape else {}


def _grouped(planned: Planned, by_gpu: dict[str, Parts], layout: Layout | None) -> Iterable[Load]:
    while by_gpu:
        parts = next(iter(by_gpu.values()))
        same = tuple(gpu for gpu, own in by_gpu.items() if own == parts)
        for gpu in same:
            del by_gpu[gpu]
        trained = layout if layout and set(same) & set(layout.gpus) else None
        yield Load(planned.name, planned.stage.kind, same, parts, trained)


def require_fit(loads: Iterable[Load], memory: float) -> None:
    """Refuse the first stage that may need more of a GPU than there is; names the largest part and what to do about it."""
    for load in loads:
        if load.peak > memory:
            part = max(load.parts, key=lambda name: load.parts[name])
            remedy = _remedy(load, part)
            raise InputError(
                f"{load.stage} needs up to {load.peak / GB:.1f} GB of GPU {load.gpus[0]}, which has {memory / GB:.1f} GB, most of it"
                f" for {part} ({load.parts[part] / GB:.1f} GB); {remedy}"
            )


def _remedy(load: Load, part: str) -> str:
    in_engine = load.layout is None and part in ("weights", "keys and values")
    return ENGINE if in_engine else REMEDIES[part].format(kind=load.kind)
