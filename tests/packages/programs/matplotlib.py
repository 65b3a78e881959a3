# part: slow
# requires: matplotlib==3.11.2
import io

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402


def run():
    figure, axes = plt.subplots(figsize=(4, 3), dpi=80)
    axes.plot([0, 1, 2], [3, 1, 2], label="$x^2$")
    axes.set_title("Größe")
    axes.legend()
    figure.canvas.draw()
    pixels = matplotlib.image.np.asarray(figure.canvas.buffer_rgba())
    file = io.BytesIO()
    figure.savefig(file, format="pdf")
    return {"numbers": [*pixels.shape, pixels.mean(), file.getvalue().startswith(b"%PDF")]}
