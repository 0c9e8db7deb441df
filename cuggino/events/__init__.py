"""Everything that happens in a run, as one tagged union; a module for each capability.

An event is a frozen struct. On the wire it is a JSON object whose `_tag` is the class name and whose fields are
camelCase. Base classes are the categories; the `is_…` guards ask for them. Each event is named twice: where its class
is defined, and in the union at the end of the same module.
"""

# ruff: noqa: F403 - the modules' public names are this package's

from cuggino.events.agent import *
from cuggino.events.ci import *
from cuggino.events.loop import *
from cuggino.events.spawn import *
from cuggino.events.watch import *
from cuggino.events.wire import *
