"""Replicas and their database killed under load: is every acknowledged decision kept, and once?

Clients ask with an Idempotency-Key each, and where they get no answer ask again, whichever replica
they reach, as clients should. Now and then one asks again what was answered long ago.
"""

import asyncio
import collections
import json
import random
import threading
import time

import serving
import vendors


def people(n=300):
    """Bodies of requests, without an id."""
    X, _, group = vendors.people(n, seed=8)
    return X.assign(group=group.to_numpy()).to_dict("records")


class Clients:
    """Clients in a thread, and what they were answered under each key."""

    def __init__(self, urls, clients=8, seed=0):
        self.urls, self.stopping = urls, threading.Event()
        self.answered = {}
        """By key: the decision and the answer that were acknowledged first."""
        self.changed = []
        """Keys under which another answer came later."""
        self.asked = []
        self.statuses = collections.Counter()
        self.repeats = 0
        self._people, self._seed = people(), seed
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run(clients)))
        self._thread.start()

    def stop(self):
        self.stopping.set()
        self._thread.join()

    async def _run(self, clients):
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=20)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            await asyncio.gather(*(self._client(session, number) for number in range(clients)))

    async def _client(self, session, number):
        rng = random.Random(f"{self._seed} {number}")
        mine = []
        while not self.stopping.is_set():
            if mine and rng.random() < 0.1:
                key = rng.choice(mine)
                self.repeats += 1
            else:
                key = f"{self._seed}-{number}-{len(mine)}"
                mine.append(key)
                self.asked.append(key)
            await self._ask_until_answered(session, key, rng)

    async def _ask_until_answered(self, session, key, rng):
        import aiohttp

        # of another person each, so that who was decided on twice can be counted
        person = {**self._people[hash_of(key) % len(self._people)], "id": key}
        body = json.dumps({"instances": [person]}).encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        while True:
            url = rng.choice(self.urls) + "/predict"
            try:
                async with session.post(url, data=body, headers=headers) as response:
                    content = await response.read()
                    status = response.status
                    decision = response.headers.get("Fairmend-Decision")
            except (aiohttp.ClientError, TimeoutError) as error:
                status = type(error).__name__
            self.statuses[status] += 1
            if status == 200:
                first = self.answered.setdefault(key, (decision, content))
                if first != (decision, content):
                    self.changed.append(key)
                return
            if self.stopping.is_set():
                return
            await asyncio.sleep(0.05)


def hash_of(key):
    return sum(key.encode())


class Fleet:
    """Replicas of one log in front of one vendor, to be killed."""

    def __init__(self, folder, artifact, vendor, log, replicas=2):
        self._start = lambda i: serving.Sidecar(
            folder / str(i), artifact, vendor.url, log=log, mode="repair", port=self.ports[i],
            probe_seconds=3600, concurrency=200,
        )  # fmt: skip
        self.ports = [vendors.free_port() for _ in range(replicas)]
        for i in range(replicas):
            (folder / str(i)).mkdir(exist_ok=True)
        self.replicas = [self._start(i) for i in range(replicas)]
        self.urls = [replica.url for replica in self.replicas]

    def kill(self, i):
        self.replicas[i].process.kill()
        self.replicas[i].stop()

    def start(self, i):
        self.replicas[i] = self._start(i)

    def stop(self):
        for replica in self.replicas:
            replica.process.kill()
            replica.stop()


def kill_again_and_again(fleet, clients, server, kills, *, seed=0, say=lambda _: None):
    """Kill replicas and the database in turns, each under load; how many kills of which."""
    rng = random.Random(seed)
    done = collections.Counter()
    kinds = ["a replica", "the database", "a replica", "the database", "both"]
    for number in range(kills):
        before = len(clients.answered)
        deadline = time.monotonic() + 60
        while len(clients.answered) < before + 20:  # under load, not before it
            assert time.monotonic() < deadline, clients.statuses
            time.sleep(0.01)
        time.sleep(rng.uniform(0.0, 0.3))
        kind = kinds[number % len(kinds)] if server is not None else "a replica"
        victim = rng.randrange(len(fleet.replicas))
        if kind != "the database":
            fleet.kill(victim)
        if kind != "a replica":
            server.kill()
            time.sleep(rng.uniform(0.0, 0.3))
            server.start()
        if kind != "the database":
            fleet.start(victim)
        done[kind] += 1
        say(f"{number + 1} of {kills}: {kind}; {len(clients.answered):,} answered")
    return done


def judged(clients, log, key):
    """What the log says about what was acknowledged."""
    from fairmend.apply.draw import Drawer
    from fairmend.serve.log import open_store, verify

    drawer = Drawer(bytes.fromhex(serving.KEY), "person")
    people = [drawer.pseudonym(asked) for asked in clients.asked]
    with open_store(log) as store:
        rows = list(store.selected(
            "SELECT decision, person FROM decisions WHERE original IS NOT NULL "
            "AND person IN (??)", people))  # fmt: skip
    logged = {decision.partition("/")[0] for decision, _ in rows}
    times = collections.Counter(person for _, person in rows)
    verdict = verify(log, key)
    return {
        "acknowledged": len(clients.answered),
        "asked again": clients.repeats,
        "lost": sum(decision not in logged for decision, _ in clients.answered.values()),
        "decided twice": sum(n > 1 for n in times.values()),
        "answered otherwise": len(clients.changed),
        "chain": verdict.broken or "holds",
        "statuses": dict(clients.statuses),
    }
