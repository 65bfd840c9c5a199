"""Kill a consumer again and again while messages flow; then look whether each came in exactly once: run as a program.

One process imports everything once; the producer and each consumer are forks of it.
"""

import asyncio
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import nats
import numpy as np
import redis

from onlinehash import LSH, Collection
from onlinehash.streams import Consumer, open_source

VECTORS = np.random.default_rng(0).normal(size=(256, 16)).round(3)
BATCH = 80
LIVES = {"redis": (0.0, 0.3), "nats": (0.4, 1.0)}  # seconds; one of NATS begins with waiting for what was left over


def message(number):
    return {"id": number, "vectors": VECTORS[number % 256].tolist(), "payload": number}


def produce_redis(server, stream, numbers, pause):
    client = redis.Redis.from_url(server)
    for start in range(0, len(numbers), 100):
        pipeline = client.pipeline(transaction=False)
        for number in numbers[start : start + 100]:
            pipeline.xadd(stream, {"item": json.dumps(message(number))})
        pipeline.execute()
        time.sleep(pause * 100)


def produce_nats(server, stream, numbers, pause):
    async def publish():
        client = await nats.connect(server)
        jetstream = client.jetstream()
        for start in range(0, len(numbers), 100):
            contents = [json.dumps(message(number)).encode() for number in numbers[start : start + 100]]
            await asyncio.gather(*(jetstream.publish(f"{stream}.new", content) for content in contents))
            await asyncio.sleep(pause * 100)
        await client.close()

    asyncio.run(publish())


class Telling(Consumer):
    """Tells how many messages of each batch are in already."""

    log = None

    def _take(self, batch):
        if self.log is not None:
            os.write(self.log, b"%d\n" % sum(map(self.source.is_in, batch)))
        super()._take(batch)


def fork(work):
    child = os.fork()
    if child:
        return child
    try:
        work()
    except BaseException as error:
        os.write(2, f"{error!r}\n".encode())
        os._exit(1)
    os._exit(0)


def consume(url, path, log=None, *, follow=True):
    with open_source(url) as source, Collection.open(path) as collection:
        consumer = Telling(source, collection, batch_size=BATCH)
        consumer.log = log
        return consumer.run(follow=follow)


def warm_up(folder):
    """Compile and load all that a consumer needs, so that it starts at once."""
    file = folder / "some.jsonl"
    file.write_text("".join(json.dumps(message(number)) + "\n" for number in range(200)))
    with open_source(file) as source, Collection.open(folder / "other.oh", LSH(16, random_state=0)) as collection:
        Consumer(source, collection, batch_size=BATCH).run()


def main(folder, server, stream, url, n_messages, n_kills):
    """Kill so many consumers, let the last one finish, and check what is stored."""
    folder, kind = Path(folder), server.partition(":")[0]
    path, rng = folder / "items.oh", random.Random(kind)
    shortest, longest = LIVES[kind]
    warm_up(folder)
    Collection.open(path, LSH(16, random_state=0), "manual").close()
    produce = {"redis": produce_redis, "nats": produce_nats}[kind]
    pause = 3 * n_kills * (shortest + longest) / 2 / n_messages  # a busy machine takes long to start and end consumers
    producer = fork(lambda: produce(server, stream, range(n_messages), pause))
    log = os.open(folder / "again", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    n_while_flowing, flows = 0, True
    for _ in range(n_kills):
        consumer = fork(lambda: consume(url, path, log))
        time.sleep(rng.uniform(shortest, longest))
        os.kill(consumer, signal.SIGKILL)
        _, status = os.waitpid(consumer, 0)
        assert os.WIFSIGNALED(status), "the consumer failed by itself"
        if flows:
            ended, status = os.waitpid(producer, os.WNOHANG)
            assert not status, "the producer failed"
            flows = not ended
        n_while_flowing += flows
    if flows:
        os.waitpid(producer, 0)
    stats = consume(url, path, follow=False)
    with Collection.open(path) as collection:
        told = {
            "stored": len(collection),
            "same": [(item.id, item.payload) for item in collection.items()] == [(i, i) for i in range(n_messages)],
            "learned": collection.hasher.n_samples_seen_,
            "lag": stats.lag,
            "dead": stats.dead_letters,
            "killed_while_flowing": n_while_flowing,
            "came_again": sum(map(int, (folder / "again").read_text().split())) + stats.redelivered,
        }
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:5], int(sys.argv[5]), int(sys.argv[6]))
