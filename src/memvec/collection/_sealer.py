"""Sealing by itself: in a thread, while items come in, or within the call that makes it due."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable

from memvec.errors import MemvecError
from memvec.progress import waiting_for

# Where so many times as many vectors wait as make a segment, those who add wait for the sealer:
# searches scan what waits.
_MOST_WAITING = 4
# Whoever waits longer is told what for.
_PATIENCE_SECONDS = 1.0


class Sealer:
    """Runs the sealing of a collection when it is due; what was added is safe in any case.

    Parameters
    ----------
    seal : callable
        Makes a segment of what waits.
    n_waiting : callable
        Returns how many vectors wait.
    seal_at : int
        So many waiting vectors are due to be sealed; 0 for never.
    background : bool
        Run it in a thread.
    name : str
        What the collection is called where its user waits.
    """

    def __init__(
        self,
        seal: Callable[[], object],
        n_waiting: Callable[[], int],
        seal_at: int,
        *,
        background: bool,
        name: str,
    ) -> None:
        self._name = name
        self._seal, self._n_waiting = seal, n_waiting
        self._seal_at, self._background = seal_at, background
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None
        self._running = False
        self._at_the_end: Callable[[], object] | None = None

    def look(self) -> None:
        """Seal if it is due; what was committed before is not undone, so no failure is raised."""
        if not self._is_due():
            return
        if not self._background:
            self._try()
            self._complain_or_keep()
            return
        try:
            with self._lock:
                thread = self._started()
        except RuntimeError as error:  # no more threads
            self._error = error
            self._complain_or_keep()
            return
        if self._n_waiting() >= _MOST_WAITING * self._seal_at:
            self._join(thread, "more are added")

    def _started(self) -> threading.Thread:
        """Return the thread that seals."""
        if self._thread is None or not self._running:
            thread = threading.Thread(target=self._run, name="memvec-sealer")
            self._running = True
            try:
                thread.start()
            except BaseException:
                self._running = False
                raise
            self._thread = thread
        return self._thread

    def _run(self) -> None:
        try:
            self._try()
        finally:
            with self._lock:
                self._running = False
                last = self._at_the_end
            if last is not None:
                last()

    def wait(self) -> None:
        """Wait until nothing is being sealed."""
        with self._lock:
            thread = self._thread
        if thread is not None:
            self._join(thread, "the collection is closed")
        self.complain(stacklevel=5)

    def settle(self) -> None:
        """Wait until what is due is sealed: to compare all that waits takes longer."""
        if not self._is_due():
            return
        self.look()
        with self._lock:
            thread = self._thread
        if thread is not None:
            self._join(thread, "its items are compared")

    def _join(self, thread: threading.Thread, then: str) -> None:
        """Wait for the thread that seals; tell so where it takes long."""
        thread.join(_PATIENCE_SECONDS)
        if thread.is_alive():
            left = f"{self._n_waiting():,} vectors wait"
            with waiting_for(f"Sealing {self._name} before {then} ({left})."):
                thread.join()

    def end(self, last: Callable[[], object]) -> None:
        """Wait until nothing is being sealed, then do the last thing.

        An interrupt ends the waiting; the thread then does the last thing when it has sealed.
        """
        try:
            self.wait()
        finally:
            with self._lock:
                running = self._running
                if running:
                    self._at_the_end = last
            if not running:
                last()

    def _is_due(self) -> bool:
        return 0 < self._seal_at <= self._n_waiting()

    def _try(self) -> None:
        try:
            while self._at_the_end is None and self._is_due():
                self._seal()
        # RuntimeError: the interpreter is shutting down and starts no more threads.
        except (MemvecError, OSError, RuntimeError) as error:
            self._error = error

    def complain(self, stacklevel: int = 4) -> None:
        """Warn of a failure, once, in the thread of the user; before anything is committed."""
        error, self._error = self._error, None
        if error is not None:
            text = f"Waiting vectors could not be sealed, and remain waiting: {error}"
            warnings.warn(text, RuntimeWarning, stacklevel=stacklevel)

    def _complain_or_keep(self) -> None:
        """Warn of a failure; where warnings are errors, leave it to the next call."""
        error = self._error
        try:
            self.complain(stacklevel=6)
        except RuntimeWarning:
            self._error = error
