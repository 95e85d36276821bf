"""What all tests share: how the processes that they start take signals."""

from __future__ import annotations

import signal

# A test run that a script has put in the background ignores SIGINT, and so would all that it starts; tests that interrupt
# their own processes would wait for ever. A handler of our own becomes the default in whatever is started.
signal.signal(signal.SIGINT, signal.default_int_handler)
