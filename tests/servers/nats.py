"""A NATS server with JetStream, and what a test asks of it."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import nats
from tests.servers import free_port, program, wait_until


class NatsServer:
    """One server, with all its files in a folder."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self.port, self._options = folder, free_port(), options
        self.start()

    def start(self) -> None:
        command = [program("nats-server", "nats-server"), "-a", "127.0.0.1", "-p", str(self.port)]
        settings = ["-js", "-sd", str(self.folder), "-l", str(self.folder / "nats.log")]
        self._process = subprocess.Popen([*command, *settings, *self._options])
        wait_until(self._answers)

    def _answers(self) -> bool:
        with socket.socket() as asking:
            return asking.connect_ex(("127.0.0.1", self.port)) == 0

    def url(self, stream: str) -> str:
        return f"nats://127.0.0.1:{self.port}/{stream}"

    def ask(self, question: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
        """Return what ``question(jetstream)`` does."""

        async def asking() -> Any:
            client = await nats.connect(f"nats://127.0.0.1:{self.port}")
            try:
                return await question(client.jetstream())
            finally:
                await client.close()

        return asyncio.run(asking())

    def make(self, stream: str) -> None:
        """Make a stream, whose messages have the subjects <stream>.<anything>."""
        self.ask(lambda jetstream: jetstream.add_stream(name=stream, subjects=[f"{stream}.>"]))

    def publish(self, stream: str, messages: list[bytes], subject: str = "new") -> None:
        """Publish messages, and wait until the server has them all."""

        async def publish(jetstream: Any) -> None:
            for start in range(0, len(messages), 500):
                some = messages[start : start + 500]
                await asyncio.gather(*(jetstream.publish(f"{stream}.{subject}", content) for content in some))

        self.ask(publish)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()
