"""A Redis server that keeps what it has confirmed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import redis
from tests.servers import free_port, program, wait_until


class RedisServer:
    """One server, with all its files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.start()

    def start(self) -> None:
        command = [program("redis-server", "redis-server"), "--port", str(self.port), "--bind", "127.0.0.1"]
        settings = ["--dir", str(self.folder), "--appendonly", "yes", "--save", "", "--logfile", "redis.log"]
        self._process = subprocess.Popen(command + settings)
        wait_until(self._answers)

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.ConnectionError:
            return False

    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port)

    def url(self, stream: str) -> str:
        return f"redis://127.0.0.1:{self.port}/0/{stream}"

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()
