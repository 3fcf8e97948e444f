"""Ctrl-C, TERM and HUP to a runner: noted, never acted on in the middle of something; whoever waits is woken."""

from __future__ import annotations

import os
import signal
from types import FrameType, TracebackType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruptible:
    """A context manager: TERM and HUP end what is going on as Ctrl-C does, so that it takes its files away with it.

    For before and after the runs; while they go on, a Stop inside of it has the signals.
    """

    def __init__(self) -> None:
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> None:
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) == signal.SIG_DFL:
                self._before[number] = signal.signal(number, signal.default_int_handler)

    def __exit__(self, kind: type[BaseException] | None, what: BaseException | None, at: TracebackType | None) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)  # type: ignore[arg-type]


class Stop:
    """A context manager. `asked` counts the requests; `fd` becomes readable with each."""

    def __init__(self) -> None:
        self.asked = 0
        self.fd, self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._before: dict[signal.Signals, object] = {}
        self._wakeup_before = -1

    def __enter__(self) -> Stop:
        self._wakeup_before = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for number in SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:  # nohup, or a background call of a shell: they mean it
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, what: BaseException | None, at: TracebackType | None) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)  # type: ignore[arg-type]
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self.fd)
        os.close(self._wake)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.asked += 1

    def drain(self) -> None:
        """Take what made `fd` readable."""
        try:
            while os.read(self.fd, 512):
                pass
        except BlockingIOError:
            return
