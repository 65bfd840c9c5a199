"""Where a collection can live, for tests of what it does anywhere."""

from itertools import count

from onlinehash import Collection

_numbers = count()


class FilePlace:
    """A file in a folder."""

    def __init__(self, folder):
        self.path = folder / "items.oh"
        self.name, self.store = str(self.path), None

    def open(self, *args, **kwargs):
        return Collection.open(self.name, *args, store=self.store, **kwargs)

    def source(self, **kwargs):
        """Return Python that opens it, for another process."""
        given = "".join(f", {name}={value!r}" for name, value in kwargs.items())
        return f"Collection.open({self.name!r}, store={self.store!r}{given})"


class EnginePlace(FilePlace):
    """A name of its own in an store."""

    def __init__(self, store):
        self.name, self.store = f"items_{next(_numbers)}", store
