"""Which jobs borrow: charged to the quota of their virtual cluster in order of start, as `ygs vcs` shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from yarn_gpu_sched.service.archive.accounts import Account


def borrowed(accounts: Iterable[Account], quota_gpus: int, is_there: Callable[[str], bool]) -> dict[str, int]:
    """Say how many GPUs each of a virtual cluster's jobs borrows: what does not fit into the quota, a gang as a whole.

    ``is_there`` tells whether a server is one of those that the quota is for.
    """
    left = quota_gpus
    found: dict[str, int] = {}
    for account in sorted(accounts, key=_by_start):
        singles = [len(one.gpus) for _, one in sorted(account.held.items()) if is_there(one.server)]
        for gpus in [sum(singles)] if account.gang else singles:
            if gpus <= left:
                left -= gpus
            else:
                found[account.job_id] = found.get(account.job_id, 0) + gpus
    return found


def _by_start(account: Account) -> tuple[float, float, str]:
    return (account.started_s or 0.0, account.submitted_s, account.job_id)
