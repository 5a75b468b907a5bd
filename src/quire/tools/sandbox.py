"""A process that gives up what decoding a file does not need: network, other processes, and other people's
files. Landlock and seccomp together, since each leaves out what the other covers.

Promises: after `enter` the process reads the interpreter, libraries, fonts and the places it was given,
writes only where it was told, and starts nothing; no code in it, native code included, takes that back. What
is private stays unreadable also where it lies within a readable folder. Must not know: what is decoded.
"""

import os
import subprocess
import sys
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

from msgspec import Struct

from quire.model.errors import Misconfigured
from quire.model.probe import Probe
from quire.model.step import SandboxMode
from quire.tools import landlock, seccomp
from quire.tools.landlock import Rule

# What holds in it, by name.
ENFORCED = {
    "network": "no sockets, not even to programs of this machine",
    "processes": "none can be started, traced or sent signals; threads can be started",
    "writing": "plain files in the decoder's own folder; no links; no modes, owners or times are changed",
    "reading": "the interpreter, libraries, fonts and the order's input; not the home folder, no settings",
}
_ADVICE = "needs Linux 5.13 or newer with Landlock and seccomp switched on, also for containers"
_TRIAL_SECONDS = 30.0
_TRIAL = (
    "from quire.tools import sandbox\n"
    "sandbox.enter(sandbox.SandboxRules())\n"
    "import socket\n"
    "try: socket.socket()\n"
    "except PermissionError: print('closed')\n"
)
# Libraries look here; none of it is secret.
_SYSTEM = (
    *("/usr", "/lib", "/lib64", "/nix/store", "/gnu/store"),
    *("/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/fonts", "/etc/localtime", "/etc/ssl/openssl.cnf"),
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/sys/vm/overcommit_memory"),
    *("/sys/devices/system/cpu", "/dev/urandom", "/dev/random", "/dev/zero"),
)
# Of the environment. No name of these could hold a key; HOME and TMPDIR become the writable folder.
_KEPT = ("PATH", "LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH", "TESSDATA_PREFIX", "COLUMNS", "LINES")
_KEPT_PREFIXES = ("LC_", "PYTHON", "VIPS_", "MALLOC_", "OMP_", "FONTCONFIG_", "GLIBC_")


class SandboxRules(Struct, frozen=True, kw_only=True):
    """`readable` and `writable` come on top of what the interpreter needs; `private` is left out of it."""

    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    private: tuple[str, ...] = ()


@cache
def find_obstacle() -> str:
    """Why this machine has no sandbox; empty when it has. Cheap: asks the kernel, and starts nothing."""
    if sys.platform != "linux":
        return "only Linux has what it takes"
    if not landlock.version():
        return "the kernel has no Landlock, or it is switched off"
    if not seccomp.is_available():
        return "the kernel filters no system calls, or its numbers of calls are not known"
    return ""


def check_mode(mode: SandboxMode) -> bool:
    """Whether sandboxes are to be used on this machine. Raises Misconfigured when they must and cannot."""
    if mode == "off":
        return False
    obstacle = find_obstacle()
    if obstacle and mode == "on":
        raise Misconfigured(
            f"sandbox is on, and this machine has none: {obstacle}. Run on Linux 5.13 or newer with Landlock "
            "and seccomp, or set sandbox to auto or off"
        )
    return not obstacle


def probe() -> Probe:
    """The same, and in earnest: a process enters the sandbox and tries to make a socket."""
    obstacle = find_obstacle()
    if not obstacle:
        obstacle = _try_out()
    if obstacle:
        return Probe(name="sandbox", ok=False, detail=obstacle, advice=_ADVICE)
    return Probe(name="sandbox", ok=True, detail=f"Landlock version {landlock.version()} and seccomp")


def enter(rules: SandboxRules) -> None:
    """From now on, for this process. Raises Misconfigured when it has more than one thread: the limits hold
    for the thread that sets them and for those that it starts. Raises OSError where the kernel refuses.
    """
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        raise Misconfigured(
            "a module of a pipeline starts a thread when it is imported, and that thread would stay outside "
            "of the sandbox; start it in the step instead"
        )
    places = [place for place in (*_SYSTEM, *_interpreter_places(), *rules.readable) if place]
    private = [Path(place).resolve() for place in rules.private]
    found = [rule for place in dict.fromkeys(places) for rule in _spare(Path(place), private)]
    found += [(place, landlock.WRITE) for place in (*rules.writable, "/dev/null")]
    landlock.restrict(found)
    seccomp.restrict()


def clean_environment(folder: str) -> dict[str, str]:
    """What of this process's environment goes into the sandbox. `folder` is for temporary files."""
    kept = {
        name: text
        for name, text in os.environ.items()
        if name in _KEPT or (name.startswith(_KEPT_PREFIXES) and "SECRET" not in name)
    }
    modules = kept.get("PYTHONPATH", "").split(os.pathsep)
    # It starts in another folder. Without threads of its own when it is imported: see `enter`.
    return kept | {
        "PYTHONPATH": os.pathsep.join(str(Path(one).resolve()) for one in modules if one),
        "HOME": folder,
        "TMPDIR": folder,
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def _interpreter_places() -> tuple[str, ...]:
    """Where modules and libraries of this interpreter lie, packages installed for development included."""
    prefixes = (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)
    ours = str(Path(__file__).resolve().parents[2])
    return (*prefixes, ours, *(str(Path(place).resolve()) for place in sys.path if place))


def _spare(place: Path, private: Collection[Path]) -> Iterator[Rule]:
    """The rules that make a place readable, and nothing private in it; the names there stay visible. A place
    that lies in something private was named on purpose, such as an input in the home folder.
    """
    try:
        found = place.resolve()
        inside = [one for one in private if one.is_relative_to(found) and one != found]
        if not inside:
            yield str(place), landlock.READ
            return
        yield str(found), landlock.LIST
        for entry in sorted(found.iterdir()):
            if not entry.is_symlink() and entry not in private:
                yield from _spare(entry, inside)
    except OSError:
        return


def _try_out() -> str:
    try:
        ended = subprocess.run(
            [sys.executable, "-c", _TRIAL],
            capture_output=True,
            check=False,
            timeout=_TRIAL_SECONDS,
            text=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"a process that enters it cannot be started: {type(error).__name__}"
    if ended.stdout.strip() == "closed":
        return ""
    last = (ended.stderr.strip().splitlines() or ["it let a socket through"])[-1]
    return f"the trial failed: {last[:300]}"
