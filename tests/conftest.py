"""What all tests have in common: the same examples every time, and Ctrl+C.

`pytest --hypothesis-profile=search` looks at new examples, many more; what it finds becomes an `@example` of its test.
"""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

settings.register_profile("same", derandomize=True, database=None, deadline=None)
settings.register_profile(
    "search", max_examples=3000, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("same")

# A shell ignores Ctrl+C for what it runs in the background, and what is ignored is inherited: also by the programs that
# the tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
