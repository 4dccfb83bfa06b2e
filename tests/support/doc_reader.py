"""A reader who does what a page says: runs its blocks from top to bottom in one folder and one Python session.

`calibsft` runs in this process, other programs in a shell. Where the page names servers there are stand-ins; `calibsft
serve` is a real process, and the page's own address leads to it from then on. Everything that differs from the page is in
`doc_tables`.
"""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, redirect_stdout
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import doc_checks
from command import Command as Calibsft
from doc_output import shows
from doc_pages import ROOT, Block, Command, commands
from doc_tables import CHANGED, NOT_PRINTED, NOT_RUN, OTHER_DIGITS, PYTHON_NOT_RUN, Rule
from doc_values import execute
from gateway_process import Running, gateway
from scripted_server import ANSWER, Asked, Sent, confident, fails, says, scripted_server

# Programs that may run here; any other needs an entry in NOT_RUN.
PROGRAMS = {
    "calibsft", "python", "accelerate", "curl", "export", "cat", "head", "gunzip", "gzip", "ls", "cd", "mkdir", "cp",
    "inspect", "lm_eval",
}  # fmt: skip
# A variable that the rest of a page uses: `folder=$(…)`.
ASSIGNMENT = re.compile(r"""^(\w+)=(\$\(.*\)|"[^"]*"|'[^']*'|\S+)$""")
# The first line of a block that is a file.
FILE_NAME = re.compile(r"# ([\w-]+\.py)\n")
STAND_INS = ("localhost:8000", "localhost:8001", "other:8000", "https://api.example.com")
OUTPUTS = ("--out", "-o", "--policy")
SHELL_SECONDS = 120


class Wrong(AssertionError):
    """A block does not do what the page says."""


@dataclass
class Reader:
    """One page's reader.

    Attributes
    ----------
    folder
        Where the page is followed.
    supply
        Puts into it what a text names.
    ran, checked, listed
        Places of blocks and commands: those that ran, data that was read, and those that a rule keeps from running.
    printed
        What commands and Python printed so far.
    addresses, own
        Where servers that the page itself starts listen: by the address on the page, and by their file.
    stand_ins
        By the address on the page and the model that is asked for, where its stand-in listens.
    after
        The block after the one that is read.
    only_parses
        Nothing is run: commands are taken apart, Python is compiled, and output is not looked for.
    """

    folder: Path
    calibsft: Calibsft
    supply: Callable[[str, Path], None]
    servers: ExitStack
    _: KW_ONLY
    ran: list[str] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)
    listed: list[tuple[str, Rule]] = field(default_factory=list)
    changed: set[Rule] = field(default_factory=set)
    printed: list[str] = field(default_factory=list)
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    addresses: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=lambda: {"CALIBSFT_SERVE_TOKEN": "any"})
    stand_ins: dict[tuple[str, str], str] = field(default_factory=dict)
    own: dict[str, tuple[str, int]] = field(default_factory=dict)
    running: Running | None = None
    after: Block | None = None
    only_parses: bool = False
    changes: Sequence[Rule] = CHANGED

    def read(self, page: Sequence[Block]) -> list[str]:
        """Do what the blocks of a page say; what goes wrong, each in some lines."""
        wrong = []
        for block, after in pairwise([*page, None]):
            self.after = after
            for step in self._steps(block):
                try:
                    step()
                except Wrong as found:
                    wrong.append(str(found))
        return wrong

    def _steps(self, block: Block) -> Sequence[Callable[[], None]]:
        if block.language in ("sh", "console"):
            return [partial(self.run, command) for command in commands(block)]
        return [partial(self._others().get(block.language, self._check), block)]

    def _others(self) -> dict[str, Callable[[Block], None]]:
        return {"python": self.run_python, "text": self.find_output}

    def _check(self, block: Block) -> None:
        if block.language not in doc_checks.DATA:
            raise Wrong(f"{block.place}: blocks tagged '{block.language}' are checked by nothing")
        try:
            doc_checks.DATA[block.language](block)
        except Exception as error:
            raise Wrong(f"{block.place}: {error}") from error
        self.checked.append(block.place)

    # Commands

    def run(self, command: Command) -> None:
        """Run a command, or check it as the table says."""
        if rule := fitting(NOT_RUN, command.text):
            try:
                doc_checks.COMMANDS[rule.check](command.text)
            except Exception as error:
                raise Wrong(f"{command.place}: {command.text}\n{error}") from error
            self.listed.append((command.place, rule))
            return
        if self.only_parses:
            self._parse(command)
            return
        self.supply(command.text, self.folder)
        printed = self._printed_by(command, self._here(self._changed(command.text)))
        self.printed.append(printed)
        self.ran.append(command.place)
        if not shows(command.output, printed, bool(fitting(OTHER_DIGITS, command.place))):
            raise Wrong(f"{command.place}: {command.text} prints otherwise:\n{printed}")

    def _parse(self, command: Command) -> None:
        try:
            doc_checks.parsed(command.text)
        except Exception as error:
            raise Wrong(f"{command.place}: {command.text}\n{error}") from error
        self.checked.append(command.place)

    def _changed(self, text: str) -> str:
        for rule in self.changes:
            if rule.fits(text):
                self.changed.add(rule)
                text = text if rule.replaced is None else re.sub(rule.pattern, rule.replaced, text)
                text = with_flags(text, rule.flags)
        return text

    def _here(self, text: str) -> str:
        """The text with the addresses of stand-ins."""
        for named in STAND_INS:
            if named in text:
                text = text.replace(named, self._address(named, text))
        if self.running and "RESPONSE_ID" in text:
            text = text.replace("RESPONSE_ID", an_answer(self.running))
        return text

    def _address(self, named: str, text: str) -> str:
        """The address of a server of the page, or of a stand-in with the model that a command asks for."""
        if named in self.addresses:
            return self.addresses[named]
        model = (re.findall(r"--(?:strong-)?model (\S+)", text) or ["model"])[-1]
        if (named, model) not in self.stand_ins:
            server = self.servers.enter_context(scripted_server(answer_any, model))
            url = server.url.removesuffix("/v1")
            self.stand_ins[named, model] = url if "//" in named else url.removeprefix("http://")
        return self.stand_ins[named, model]

    def _printed_by(self, command: Command, text: str) -> str:
        place = f"{command.place}: {command.text}"
        if assigned := ASSIGNMENT.match(text):
            self.environment[assigned[1]] = self._shell(f"echo {assigned[2]}", place).strip()
            return ""
        text = self._expanded(text)
        program, words = split(text)
        if program not in PROGRAMS:
            raise Wrong(f"{place}\n{program} is not run by these tests, and no rule of doc_tables says why")
        if program == "python" and words[0] in self.own:
            return self._start(words, place)
        if words[:1] == ["serve"] and program == "calibsft":
            return self._serve(words[1:])
        return self._calibsft(words, place) if program == "calibsft" else self._shell(text, place)

    def _expanded(self, text: str) -> str:
        """With the variables that the page has set."""
        for name, value in self.environment.items():
            text = re.sub(rf"\$\{{?{name}\b\}}?", value.replace("\\", r"\\"), text)
        return text

    def _calibsft(self, words: list[str], place: str) -> str:
        self._clear_outputs(words)
        code, out, err = self.calibsft(*words)
        if code == 0:
            return f"{out}\n{err}\n{out}"  # in whatever order a page shows them
        # A page may show a refusal, with its sentence below.
        if self.after and self.after.language == "text" and shows(self.after.text, err):
            return err
        raise Wrong(f"{place}\nended with {code}: {err.strip()[-600:]}")

    def _clear_outputs(self, words: list[str]) -> None:
        """Begin anew what a command is to write: pages give alternatives that write to one folder."""
        if words[0] in ("run", "serve", "monitor", "export-policy"):
            return
        outputs = [words[i + 1] for i, word in enumerate(words[:-1]) if word in OUTPUTS]
        if words[0] in ("certify", "route") and "--policy" not in words:
            outputs.append("policy.json")
        for output in outputs:
            path = self.folder / output
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def _shell(self, text: str, place: str) -> str:
        source = str(ROOT / "src")
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = os.environ | self.environment | {"PYTHONPATH": source, "PATH": path, "NO_PROXY": "*"}
        done = subprocess.run(
            ["bash", "-euc", text], cwd=self.folder, env=environment, capture_output=True, text=True,
            timeout=SHELL_SECONDS, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise Wrong(f"{place}\nended with {done.returncode}: {done.stderr.strip()[-1500:]}")
        return done.stdout

    def _serve(self, words: list[str]) -> str:
        """A gateway that stays until the page ends or starts another."""
        given = doc_checks.parsed_options("serve", words)
        told = {
            k: v for k, v in given.items() if k in ("labels", "name", "local_model", "strong_model") and v
        }
        policy = self.folder / given["policy"]
        self.running = self.servers.enter_context(
            gateway(policy, given["local"], given["strong"], check=True, **told)
        )
        self.addresses["localhost:8000"] = self.running.url.removeprefix("http://").removesuffix("/v1")
        return self.running.said()

    def _start(self, words: list[str], place: str) -> str:
        """A program that runs until the page has been read."""
        process = subprocess.Popen([sys.executable, *words], cwd=self.folder, stderr=subprocess.DEVNULL)
        self.servers.callback(process.wait)
        self.servers.callback(process.kill)
        deadline = time.monotonic() + SHELL_SECONDS
        while not listens(self.own[words[0]]):
            if process.poll() is not None or time.monotonic() > deadline:
                raise Wrong(f"{place}\ndoes not answer")
            time.sleep(0.05)
        return ""

    # Python

    def run_python(self, block: Block) -> None:
        """Run a block in the page's session; a block with a file's name in its first line becomes that file."""
        if named := FILE_NAME.match(block.text):
            (self.folder / named[1]).write_text(self._with_free_port(named[1], block.text))
            self.ran.append(block.place)
        elif rule := fitting(PYTHON_NOT_RUN, block.text):
            self._compile(block)
            self.listed.append((block.place, rule))
        elif self.only_parses:
            self._compile(block)
            self.checked.append(block.place)
        else:
            self._execute(block)

    def _compile(self, block: Block) -> None:
        try:
            compile(block.text, block.place, "exec")
        except SyntaxError as error:
            raise Wrong(f"{block.place} in line {line_of(error, block)}: {error}") from error

    def _execute(self, block: Block) -> None:
        self.supply(block.text, self.folder)
        shown, text = StringIO(), self._here(self._changed(block.text))
        try:
            with redirect_stdout(shown):
                execute(text, block.place, self.names)
        except Exception as error:
            where = f" in line {line_of(error, block)}: {type(error).__name__}: {error}"
            raise Wrong(f"{block.place}{where}\n{block.text}") from error
        self.printed.append(shown.getvalue())
        self.ran.append(block.place)

    def _with_free_port(self, name: str, text: str) -> str:
        """The text of a file; of a server's, with a free port in place of its own."""
        found = re.search(r'\("127\.0\.0\.1", (\d+)\)', text)
        if not found:
            return text
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.own[name] = free.getsockname()
        self.addresses[f"localhost:{found[1]}"] = f"127.0.0.1:{self.own[name][1]}"
        return text.replace(found[0], str(self.own[name]))

    # Output

    def find_output(self, block: Block) -> None:
        """What a page shows as output was printed by something that it ran before."""
        if rule := fitting(NOT_PRINTED, block.text):
            self.listed.append((block.place, rule))
            return
        if self.only_parses:
            return
        otherwise = bool(fitting(OTHER_DIGITS, block.place))
        if not any(shows(block.text, printed, otherwise) for printed in self.printed):
            last = self.printed[-1].strip() if self.printed else ""
            raise Wrong(
                f"{block.place}: no command of the page prints\n{block.text}\nbut the last one\n{last}"
            )
        self.ran.append(block.place)


def fitting(table: Sequence[Rule], text: str) -> Rule | None:
    return next((rule for rule in table if rule.fits(text) and rule.holds()), None)


def split(text: str) -> tuple[str, list[str]]:
    """A command's program and its words, without variables before it."""
    words = shlex.split(text, comments=True)
    while words and re.match(r"\w+=", words[0]):
        words = words[1:]
    return (words[0], words[1:]) if words else ("", [])


def with_flags(text: str, flags: str) -> str:
    """The command with options at its end, without its comment."""
    if not flags:
        return text
    words = shlex.split(text, comments=True)
    return shlex.join([*words, *flags.split()])


def listens(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, 1).close()
    except OSError:
        return False
    return True


def line_of(error: BaseException, block: Block) -> int:
    """The line of the page at which a block failed; 0 if unknown."""
    if isinstance(error, SyntaxError):
        return block.line + (error.lineno or 1) - 1
    step, found = error.__traceback__, 0
    while step:
        if step.tb_frame.f_code.co_filename == block.place:
            found = block.line + step.tb_lineno - 1
        step = step.tb_next
    return found


def answer_any(asked: Asked) -> Sent:
    """A model that answers whatever it is asked, and a judge that finds everything right."""
    if not asked.path.endswith("/chat/completions"):
        return fails(404)
    system = str(asked.body["messages"][0]["content"])
    return says("yes" if "<confidence>" not in system and "yes" in system else confident("0.95", ANSWER))


def an_answer(running: Running) -> str:
    """The id of a response that a gateway has given."""
    import httpx2

    body = {"model": running.model, "messages": [{"role": "user", "content": "57*77"}]}
    reply = httpx2.post(f"{running.url}/chat/completions", json=body, trust_env=False, timeout=60)
    return str(reply.json()["calibsft"]["id"])
