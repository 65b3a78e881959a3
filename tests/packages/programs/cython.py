# Translates a module to C, which needs no C compiler, and runs code that uses Cython's types without being compiled.
# part: slow
# requires: cython==3.3.1
import subprocess
import sys
import tempfile

import cython


def weighted(count: cython.int) -> cython.double:
    result: cython.double = 0
    for number in range(count):
        result += number * 0.5
    return result


def run():
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/sums.pyx", "w") as file:
            file.write("def total(int count):\n    cdef long result = 0\n    for i in range(count):\n        result += i\n    return result\n")
        subprocess.run([sys.executable, "-m", "cython", "-3", f"{folder}/sums.pyx"], check=True)
        with open(f"{folder}/sums.c") as file:
            is_translated = "PyInit_sums" in file.read()
    return {"numbers": [weighted(10), cython.compiled, is_translated]}
