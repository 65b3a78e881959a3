"""Makes grids.bin from the grids of the Python package `gguf` (ggml's, MIT; see grids.LICENSE): 16 bits for each point, little-endian.

    python3 grids.py > grids.bin
"""

import sys

from gguf import quants

for of in [quants.IQ2_XXS, quants.IQ2_XS, quants.IQ2_S, quants.IQ3_XXS, quants.IQ3_S, quants.IQ1_S]:
    points = bytes.fromhex(of.grid_hex.decode())
    assert len(points) == 2 * of.grid_shape[0]
    sys.stdout.buffer.write(points)
