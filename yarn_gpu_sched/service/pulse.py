"""Heartbeats of one stream: ours when we were silent for a second, theirs missed for three.

Silence counts only while we listen. A message that lies unread because we are busy is ours to
answer for, and so is a second in which the whole process stood still.
"""

from collections.abc import Callable

from yarn_gpu_sched.service.clock import Clock, Timer

HEARTBEAT_S = 1.0
DEAD_AFTER_S = 3.0
_STALL_S = 1.0


class Pulse:
    """Calls ``beat`` when a heartbeat is due, and ``dead`` once when the other side is silent."""

    def __init__(self, clock: Clock, beat: Callable[[], None], dead: Callable[[], None]) -> None:
        self._clock = clock
        self._beat = beat
        self._dead = dead
        self._sent_s = clock.now_s()
        self._listening_since_s: float | None = None
        self._timers: dict[str, Timer] = {}
        self._plan("beat", self._sent_s + HEARTBEAT_S, self._on_beat)
        self._plan("dead", self._sent_s + DEAD_AFTER_S, self._on_dead)

    def sent(self) -> None:
        """Something was sent."""
        self._sent_s = self._clock.now_s()

    def listening(self) -> None:
        """We wait for a message from now on."""
        self._listening_since_s = self._clock.now_s()

    def heard(self) -> None:
        """Take note that a message came; it is worked on until `listening` is called again."""
        self._listening_since_s = None

    def stop(self) -> None:
        """Call nothing any more."""
        for timer in self._timers.values():
            timer.cancel()

    def _plan(self, name: str, when_s: float, callback: Callable[[float], None]) -> None:
        self._timers[name] = self._clock.call_at(when_s, lambda: callback(when_s))

    def _on_beat(self, _due_s: float) -> None:
        now_s = self._clock.now_s()
        if now_s >= self._sent_s + HEARTBEAT_S:
            self._sent_s = now_s
            self._beat()
        self._plan("beat", self._sent_s + HEARTBEAT_S, self._on_beat)

    def _on_dead(self, due_s: float) -> None:
        now_s = self._clock.now_s()
        since_s = self._listening_since_s
        if since_s is not None and now_s - due_s > _STALL_S:
            self._listening_since_s = since_s = now_s
        if since_s is not None and now_s >= since_s + DEAD_AFTER_S:
            self._dead()
            return
        heard_s = now_s if since_s is None else since_s
        self._plan("dead", heard_s + DEAD_AFTER_S, self._on_dead)
