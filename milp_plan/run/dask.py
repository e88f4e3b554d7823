"""Clients of a Dask scheduler."""

from __future__ import annotations

import logging
from typing import Any

from milp_plan.core import BackendUnavailableError

CONNECT_S = 10
"""Timeout of a connection in seconds."""

ANSWER_S = 3.0
"""Timeout of an answer of the scheduler, which may be busy, in seconds."""


def client_at(address: str) -> Any:
    """Return a client of the scheduler at an address; its log is silenced.

    Raises
    ------
    BackendUnavailableError
        distributed is not installed, or no scheduler answers at the address.
    """
    try:
        from distributed import Client
    except ImportError:
        raise BackendUnavailableError(
            "--dask needs distributed, which is not installed: pip install 'milp_plan[cluster]'"
        ) from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        return Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise BackendUnavailableError(f"no Dask scheduler at {address}: {error}") from None


def workers_of(client: Any) -> dict[str, Any]:
    """Return the scheduler's data on each worker, by address.

    ``Client.scheduler_info`` may be empty: the client sometimes asks without workers, and returns
    the last answer.

    Raises
    ------
    OSError
        The scheduler does not answer.
    """
    answer = client.sync(client.scheduler.identity, n_workers=-1, callback_timeout=ANSWER_S)
    workers: dict[str, Any] = answer["workers"]
    return workers
