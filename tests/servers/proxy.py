"""A TCP proxy that can lose connections at a chosen moment."""

import selectors
import socket
import threading
from contextlib import contextmanager, suppress


class Proxy:
    """Pass bytes on between clients and a server, until told to cut.

    Parameters
    ----------
    port : int
        Where the server listens on 127.0.0.1.

    Attributes
    ----------
    cut : str or None
        What happens to the next bytes from a client whose connection is then lost: "before" they are passed on,
        "after" that, or after the "answer" has come, which the client never sees.
    noticed : bool
        Whether the server's side is closed too; otherwise the server believes that the client is still there.
    """

    def __init__(self, port):
        self._server = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.cut, self.noticed = None, True
        self._kept = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._server))
                threading.Thread(target=self._serve, args=(client, server), daemon=True).start()

    def _serve(self, client, server):
        with client, suppress(OSError):
            try:
                self._pass_on(client, server)
            finally:
                server.close() if self.noticed else self._kept.append(server)

    def _pass_on(self, client, server):
        """Return when one side has ended the connection, or when it is to be lost."""
        with selectors.DefaultSelector() as selector:
            selector.register(client, selectors.EVENT_READ)
            selector.register(server, selectors.EVENT_READ)
            while True:
                for ready, _ in selector.select():
                    data = ready.fileobj.recv(1 << 16)
                    if not data:
                        return
                    if ready.fileobj is server:
                        client.sendall(data)
                        continue
                    cut, self.cut = self.cut, None
                    if cut != "before":
                        server.sendall(data)
                    if cut == "answer":
                        server.recv(1 << 16)
                    if cut is not None:
                        return

    def close(self):
        self._listening.close()
        for server in self._kept:
            server.close()


@contextmanager
def proxy(port):
    """Run a proxy while the block lasts."""
    running = Proxy(port)
    try:
        yield running
    finally:
        running.close()
