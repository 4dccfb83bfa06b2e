"""A harness of `verifiers` that asks its model once, from this process: theirs install programs from the network first."""

import aiohttp
import verifiers.v1 as vf
from verifiers.v1.runtimes import ProgramResult

__all__ = ["ScriptedHarness"]


class ScriptedHarness(vf.Harness[vf.HarnessConfig]):
    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data, tool_interception_url=None):  # type: ignore[no-untyped-def]
        system, prompt = self.resolve_prompt(data)
        messages = [{"role": "system", "content": system}, {"role": "user", "content": prompt}]
        headers = {"Authorization": f"Bearer {secret}"}
        async with aiohttp.ClientSession(headers=headers) as session:
            body = {"model": ctx.model, "messages": messages}
            async with session.post(f"{endpoint}/chat/completions", json=body) as reply:
                reply.raise_for_status()
        return ProgramResult(0, "", "")
