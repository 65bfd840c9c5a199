"""A PostgreSQL server of our own, in a folder that goes away with it."""

import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import psycopg
from tests.servers import free_port, program, wait_until

FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}  # not for tests that kill the server
SETTINGS = {"shared_buffers": "16MB", "max_wal_size": "64MB", "autovacuum": "off", "listen_addresses": "127.0.0.1"}


class Postgres:
    """A server and where it is."""

    def __init__(self, folder, settings):
        self.folder, self.port = folder, free_port()
        self.url = self.url_of("postgres")
        # PostgreSQL refuses to be root.
        self._user = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
        self._settings = {**SETTINGS, **settings, "port": self.port, "unix_socket_directories": folder}
        if self._user:
            shutil.chown(folder, "postgres")
        initdb = [program("initdb", "postgresql"), "-D", folder / "data", "-U", "postgres", "-A", "trust", "--no-sync"]
        subprocess.run([*initdb, "-E", "UTF8", "--locale=C"], check=True, capture_output=True, cwd=folder, **self._user)
        self.start()

    def url_of(self, database, user="postgres"):
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def start(self):
        settings = [f"--{name}={value}" for name, value in self._settings.items()]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [program("postgres", "postgresql"), "-D", self.folder / "data", *settings],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **self._user,
            )
        wait_until(self._answers)

    def _answers(self):
        if self._process.poll() is not None:
            raise RuntimeError((self.folder / "log").read_text())
        try:
            psycopg.connect(self.url).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self, how="SIGINT"):
        """Cut all connections and end; SIGQUIT is as if the power had failed."""
        self._process.send_signal(signal.Signals[how])
        self._process.wait()

    def execute(self, sql, *values):
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(sql, values)
            return cursor.fetchall() if cursor.description else None


@contextmanager
def postgres(settings=FAST):
    """Run a server while the block lasts."""
    folder = Path(tempfile.mkdtemp(prefix="onlinehash-postgres-"))
    folder.chmod(0o755)
    try:
        server = Postgres(folder, settings)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
