"""The ways in which servers get a policy's weights; each is listed in `SENDERS`.

`file` writes an ordinary checkpoint, reads it back, and lets every server load it: a server that fails to load does not recover.
`nccl` sends from GPU to GPU with vLLM's own transfer.
"""

import asyncio
import shutil
import socket
from collections.abc import Callable
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import safe_open

from calibsft.artifacts import make_folder, temporary_name
from calibsft.artifacts.writing import telling_no_room
from calibsft.engines.engine import Model
from calibsft.engines.policy import PolicyServers
from calibsft.errors import InputError
from calibsft.served.server import Failed, Server


class Sender(Protocol):
    """Gives servers the weights of a model."""

    def take(self, model: "Model | None", version: str) -> None:
        """Make these the weights that servers get from now on; None in processes whose weights another one sends."""

    async def load(self, server: Server) -> None:
        """Let a server take them; raises `Failed`."""

    def done(self) -> None:
        """All servers that are there have them."""


class FileSender:
    """Weights in a folder that the trainer and all servers see under the same path.

    A folder that was named may hold other things, also weights of other trainings, so this one has its own inside.
    """

    def __init__(self, servers: PolicyServers, folder: Path) -> None:
        own = sha256(str(folder.resolve()).encode()).hexdigest()[:12]
        named = servers.folder / f"weights-{own}" if servers.folder else folder / "weights"
        self._folder = named.resolve()

    def take(self, model: "Model | None", version: str) -> None:
        self._newest = self._folder / version
        if model is None:
            return  # it is there before this process asks a server
        make_folder(self._folder)
        partial = temporary_name(self._newest)
        with telling_no_room(self._folder):
            model.save_pretrained(partial)
        _require_whole(partial, len(model.state_dict()))
        partial.rename(self._newest)

    async def load(self, server: Server) -> None:
        body = {"method": "policy_load", "kwargs": {"folder": str(self._newest)}}
        results = (await server.ask("POST", "/collective_rpc", body)).get("results")
        loaded = [result.get("loaded") if isinstance(result, dict) else None for result in results or [None]]
        if any(path != str(self._newest) for path in loaded):
            raise Failed("reply")

    def done(self) -> None:
        for older in self._folder.iterdir():
            if older != self._newest:
                shutil.rmtree(older, ignore_errors=True)


class NcclSender:
    """Weights from the trainer's first GPU to those of the servers, by vLLM's own transfer; vLLM must be installed here too."""

    def __init__(self, servers: PolicyServers, folder: Path) -> None:
        if find_spec("vllm") is None or not torch.cuda.is_available():
            raise InputError(
                "rl.servers.weights nccl needs a GPU, and vLLM beside the trainer too; install vllm here, or set it to file"
            )
        self._timeout = servers.timeout
        self._transfers: dict[str, Any] = {}

    def take(self, model: "Model | None", version: str) -> None:
        from vllm.distributed.weight_transfer.base import ModuleSource

        self._source = None if model is None else ModuleSource(model.to("cuda"))
        self._transfers = {}

    async def load(self, server: Server) -> None:
        if self._source is None:
            raise InputError(
                f"the policy's server at {server.url} was started again, and with rl.servers.weights nccl only the first process"
                " can give it weights; run the same command again to go on, or set it to file"
            )
        if server.url not in self._transfers or server.failed:
            devices = (await server.ask("GET", "/get_world_size")).get("world_size")
            if type(devices) is not int:
                raise Failed("reply")
            self._transfers[server.url] = await asyncio.to_thread(self._connect, server.url, devices)
        await asyncio.to_thread(self._transfers[server.url].send_weights)

    def _connect(self, url: str, devices: int) -> Any:
        """A transfer to one server; the trainer is the first of its processes."""
        from vllm.distributed.weight_transfer.clients import HTTPVLLMWeightSyncClient
        from vllm.distributed.weight_transfer.factory import WeightTransferTrainerFactory
        from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo

        here = NCCLTrainerInitInfo(socket.gethostname(), free_port(), devices + 1)
        client = HTTPVLLMWeightSyncClient(url, self._timeout)
        return WeightTransferTrainerFactory.trainer_init(here, client=client, source=self._source)

    def done(self) -> None:
        """Nothing is left behind."""


SENDERS: dict[str, Callable[[PolicyServers, Path], Sender]] = {"file": FileSender, "nccl": NcclSender}


def _require_whole(folder: Path, tensors: int) -> None:
    """Refuse a checkpoint that cannot be read back to its end."""
    found = 0
    for path in folder.glob("*.safetensors"):
        with safe_open(path, framework="pt") as file:
            found += len(list(file.keys()))
    # Tied tensors are written once.
    if not 0 < found <= tensors:
        raise InputError(f"{folder}: the written weights are incomplete; check the folder's file system")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
