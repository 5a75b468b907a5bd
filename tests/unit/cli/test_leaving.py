"""How the command's process ends: with its own exit code, whatever libraries still do."""

import subprocess
import sys

import pytest

# A thread that is not done when the interpreter takes itself apart, as those of the S3 client.
PROGRAM = """
import atexit, os, sys, threading, types
from quire.cli.main import run_command

class Aborting:
    def __del__(self):
        os.abort()

def command():
    if {native}:
        sys.modules["obstore"] = types.ModuleType("obstore")
        sys.modules["obstore"].kept = Aborting()
    atexit.register(lambda: sys.stdout.write(" tidied "))
    threading.Thread(target=lambda: sys.stdout.write(" joined ")).start()
    sys.stdout.write(" said ")
    {end}

run_command(command)
"""


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(
    ("end", "code"), [("pass", 0), ("sys.exit()", 0), ("sys.exit(3)", 3), ("raise KeyboardInterrupt", 130)]
)
def test_all_is_tidied_up_and_the_code_is_the_commands(native, end, code):
    program = PROGRAM.format(native=native, end=end)
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False
    )
    assert (ran.returncode, ran.stderr) == (code, "")
    assert sorted(ran.stdout.split()) == ["joined", "said", "tidied"]


def test_a_reason_in_words_is_shown():
    program = PROGRAM.format(native=False, end='sys.exit("no such thing")')
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False
    )
    assert (ran.returncode, ran.stderr) == (1, "no such thing\n")


def test_idle_threads_of_a_pool_do_not_keep_the_process_alive():
    program = PROGRAM.format(
        native=False, end="sys.pool = Pool(1); sys.pool.submit(print, ' done ').result()"
    )
    ran = subprocess.run(
        [sys.executable, "-c", "from concurrent.futures import ThreadPoolExecutor as Pool\n" + program],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "done" in ran.stdout.split()
