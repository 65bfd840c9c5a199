"""Demos: the stream behind the page of ``onlinehash serve --demo``, and what ``onlinehash demo`` shows."""
