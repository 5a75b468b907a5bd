"""What stands between fork and a command: it dies with its parent, and takes no more memory than told.

In the child itself, since between fork and exec of a process with threads nothing may be called. Must not
know: what the command does.
"""

import os
import sys
from collections.abc import Sequence

_SHIM = (
    "import ctypes,os,resource,signal,sys\n"
    "if sys.platform=='linux': ctypes.CDLL(None).prctl(1,signal.SIGKILL,0,0,0)\n"
    "os.getppid()==int(sys.argv[1]) or os._exit(1)\n"
    "limit=int(sys.argv[2])<<20\n"
    "resource.setrlimit(resource.RLIMIT_DATA,(limit,resource.getrlimit(resource.RLIMIT_DATA)[1]))\n"
    "os.execvp(sys.argv[3],sys.argv[3:])\n"
)


def shimmed(command: Sequence[str], memory_mb: int) -> tuple[str, ...]:
    """The command, to be started by this very process."""
    return (sys.executable, "-c", _SHIM, str(os.getpid()), str(memory_mb), *command)
