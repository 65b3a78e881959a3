# Runs the program in the wheel, which starts others.
# part: quick
# requires: ninja==1.13.2
import os
import subprocess
import tempfile

import ninja

BUILD = """
rule join
  command = cat $in > $out
build all: join one two
build one: join source
build two: join source
"""


def run():
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {"build.ninja": BUILD, "source": "1234"}.items():
            with open(f"{folder}/{name}", "w") as file:
                file.write(text)
        ended = subprocess.run([os.path.join(ninja.BIN_DIR, "ninja"), "-C", folder], capture_output=True, text=True)
        if ended.returncode != 0:
            raise RuntimeError(ended.stdout + ended.stderr)
        return {"numbers": [os.path.getsize(f"{folder}/all")]}
