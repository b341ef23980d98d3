"""Works that need nothing of each other, on the machines of a Ray cluster (extra `cluster`): exams, a study's seeds.

On one machine loky does the same (`side_by_side`). Here a work whose process or machine dies is done again elsewhere,
so it must give the same whenever and wherever it is done. Every machine of the cluster needs the same devmind; folders
that a work reads or writes (`--data`, a study's `--out`) must stand under the same path on all of them.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from devmind.agent.threads import cores
from devmind.errors import ConfigError, ExamError

HERE, RAY = "here", "ray"
"""Places of works: this machine, and a cluster of Ray: `ray` begins one on this machine, `ray:ADDRESS` joins one."""
RETRIES = 3
"""How often a work is done again whose process or machine died."""


LOOPBACK = "127.0.0.1"
CONNECT_S = 5.0


class Cluster:
    """A connection to the cluster `on`, to be closed; a cluster that was begun for it ends with it.

    Args:
        environment: variables of the processes that work.

    Attributes:
        slots: how many works are done at a time, one for each core of the cluster.

    Raises:
        ConfigError: Ray is not installed, or there is no cluster at the address.
    """

    def __init__(self, on: str, environment: dict[str, str]) -> None:
        address = on.partition(":")[2]
        if address:
            _check_listens(address)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would report its use to its makers
        if not address or address.startswith(LOOPBACK):
            # Else Ray takes the machine's address in the network wherever it is told 127.0.0.1.
            os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        try:
            import ray
        except ImportError:
            raise ConfigError(
                "--on ray needs Ray; it is in the extra 'cluster': pip install 'devmind[cluster]'"
            ) from None
        self._ray = ray
        how: dict[str, Any] = {"address": address} if address else {"address": "local", "num_cpus": cores()}
        if not address:
            how |= {"include_dashboard": False, "_node_ip_address": LOOPBACK}
        ray.init(**how, runtime_env={"env_vars": environment}, log_to_driver=False, logging_level=logging.ERROR)
        self.slots = int(ray.cluster_resources().get("CPU", 1))

    def put(self, value: Any) -> Any:
        """A reference that may be given to `submit` in place of `value`: each machine fetches the value once."""
        return self._ray.put(value)

    def submit(self, function: Callable[..., Any], *given: Any) -> Future[Any]:
        """Call a function of an importable module there; its result, or its error, when it is done."""
        return self._ray.remote(max_retries=RETRIES)(function).remote(*given).future()

    def result(self, done: Future[Any]) -> Any:
        """The result of a work that has ended.

        Raises:
            ExamError: its process died again and again, or could not begin. The work's own errors come as they are.
        """
        try:
            return done.result()
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause if isinstance(error.cause, Exception) else error from None
        except self._ray.exceptions.RayError as error:
            raise ExamError(
                f"A work on the cluster ended without a result ({type(error).__name__}: "
                f"{' '.join(str(error).split())[:200]}); perhaps its machines have too little memory, or "
                "another devmind. The same command goes on with what is left."
            ) from error

    def close(self) -> None:
        """Leave the cluster; works that are still being done end."""
        self._ray.shutdown()


def _check_listens(address: str) -> None:
    """Refuse an address at which nothing listens; Ray itself would try for six minutes, and then end the program.

    Raises:
        ConfigError: nothing does, or the address is none.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_S).close()
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"There is no Ray cluster at '{address}' ({error}); begin one by 'ray start --head', and give the address "
            "that it prints, such as ray:10.0.0.5:6379."
        ) from None
