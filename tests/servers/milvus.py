"""A Milvus server of our own: Milvus Lite, asked over TCP as any server is."""

import os
import subprocess
import tempfile
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from pymilvus import MilvusClient, MilvusException
from tests.servers import free_port, wait_until


class Milvus:
    """A server and where it is."""

    def __init__(self, folder):
        self.file, self.port = folder / "milvus.db", free_port()
        self.uri = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        library = Path(find_spec("milvus_lite").submodule_search_locations[0], "lib")
        environment = {**os.environ, "LD_LIBRARY_PATH": f"{library}:{os.environ.get('LD_LIBRARY_PATH', '')}"}
        program = [library / "milvus", self.file, f"127.0.0.1:{self.port}", "FATAL"]
        self._process = subprocess.Popen(program, env=environment, cwd=self.file.parent)
        wait_until(self._answers)

    def _answers(self):
        if self._process.poll() is not None:
            raise RuntimeError("The server has ended.")
        try:
            MilvusClient(self.uri, alias="asking", timeout=1).close()
        except MilvusException:
            return False
        return True

    def stop(self):
        """End at once, as if the machine had failed."""
        self._process.kill()
        self._process.wait()


@contextmanager
def milvus():
    """Give a server that is there while the block lasts."""
    with tempfile.TemporaryDirectory(prefix="milvus-") as folder:
        server = Milvus(Path(folder))
        try:
            yield server
        finally:
            server.stop()
