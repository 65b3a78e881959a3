"""NumPy's side of the test in numpy.rs.

    numpy_interop.py cases FILE      write the table of allclose verdicts (committed as data/allclose.txt)
    numpy_interop.py make DIRECTORY  write arrays for the test to read, rewrite and compare
    numpy_interop.py check DIRECTORY compare what the test wrote with what it read
"""

import io
import itertools
import sys
from pathlib import Path

import numpy as np
from numpy.lib import format as npy_format

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES = ["float32", "float64", *INTEGERS]


def words(array):
    """The elements as hexadecimal bit patterns."""
    unsigned = np.ascontiguousarray(array).view(f"uint{array.dtype.itemsize * 8}")
    return ",".join(f"{word:x}" for word in unsigned.ravel().tolist())


def verdicts():
    """Pairs of floats around every edge of the definition, with what NumPy says of them."""
    random = np.random.default_rng(7)
    for dtype in ("float32", "float64"):
        limits = np.finfo(dtype)
        edges = [0.0, -0.0, 1.0, -1.0, limits.max, limits.min, limits.tiny, limits.smallest_subnormal]
        edges = np.array([*edges, np.inf, -np.inf, np.nan, 1e-8, 1e-5, 1 + limits.eps], dtype)
        for rtol, atol, equal_nan in [(1e-5, 1e-8, False), (0.0, 0.0, True), (1e-3, 0.0, False), (2.0, 1.0, True)]:
            for actual, expected in itertools.product(edges, edges):
                yield dtype, rtol, atol, equal_nan, np.array([actual]), np.array([expected])
        # Just inside, on and just outside the tolerance, where the last bit of the arithmetic decides.
        for _ in range(100):
            rtol, atol = 10.0 ** random.uniform(-7, -1), 10.0 ** random.uniform(-9, -1)
            expected = (random.normal(size=1) * 10.0 ** random.uniform(-3, 3)).astype(dtype)
            actual = expected + random.choice([-1, 1]) * (atol + rtol * abs(expected))
            actual = np.array(actual, dtype)
            for _ in range(random.integers(0, 3)):
                actual = np.nextafter(actual, np.array(random.choice([-np.inf, np.inf]), dtype))
            yield dtype, rtol, atol, False, actual, expected
        for _ in range(20):
            expected = random.normal(size=37).astype(dtype)
            actual = (expected * (1 + random.normal(size=37) * 1e-5)).astype(dtype)
            yield dtype, 3e-5, 1e-8, False, actual, expected


def cases(path):
    with open(path, "w", encoding="ascii") as file:
        file.write("# dtype rtol atol equal_nan actual expected allclose, by numpy_interop.py with NumPy\n")
        with np.errstate(all="ignore"):
            for dtype, rtol, atol, equal_nan, actual, expected in verdicts():
                assert actual.dtype == expected.dtype == dtype
                close = np.allclose(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan)
                file.write(f"{dtype} {rtol!r} {atol!r} {equal_nan:d} {words(actual)} {words(expected)} {close:d}\n")


def arrays():
    random = np.random.default_rng(3)
    for dtype in [*DTYPES, "float16", "complex64", "complex128"]:
        for shape in [(), (0,), (1,), (7,), (2, 3), (3, 1, 4), (2, 3, 4, 5), (0, 3)]:
            n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
            array = np.frombuffer(random.bytes(n_bytes), dtype).reshape(shape)
            name = f"{dtype}-{'x'.join(map(str, shape))}"
            yield name, array
            yield f"{name}-fortran", np.asfortranarray(array)
            yield f"{name}-big", array.astype(np.dtype(dtype).newbyteorder(">"))
            yield f"{name}-big-fortran", np.asfortranarray(array.astype(np.dtype(dtype).newbyteorder(">")))
    for shape in [(), (0,), (7,), (3, 1, 4)]:
        array = np.array(random.integers(0, 2, shape), bool)
        name = f"bool-{'x'.join(map(str, shape))}"
        yield name, array
        yield f"{name}-fortran", np.asfortranarray(array)
    text = np.array([["", "a", "grüße"], ["👋", "in\0side", "longer than the others"]])
    yield "text", text
    yield "text-fortran", np.asfortranarray(text)
    yield "text-big", text.astype(text.dtype.newbyteorder(">"))
    yield "text-scalar", np.array("word")
    yield "text-empty", np.array([], dtype=str)
    yield "bytes", np.array([b"", b"a", "grüße".encode()])


def unsupported():
    yield "longdouble", np.zeros(2, "longdouble")
    yield "object", np.array([None, "a"], dtype=object)
    yield "datetime64", np.zeros(2, "datetime64[s]")
    yield "void", np.zeros(2, "V3")
    yield "structured", np.zeros(2, [("a", "<f4"), ("b", "<i2", (2,))])
    yield "structured-utf8", np.zeros(2, [("名前", "<f4")])


def make(directory):
    for folder in ("in", "out", "unsupported"):
        (directory / folder).mkdir()
    for name, array in arrays():
        np.save(directory / "in" / f"{name}.npy", array)
    for version in [(2, 0), (3, 0)]:
        with open(directory / "in" / f"version-{version[0]}.npy", "wb") as file:
            npy_format.write_array(file, np.arange(6, dtype="float32").reshape(2, 3), version=version)
    for name, array in unsupported():
        np.save(directory / "unsupported" / f"{name}.npy", array, allow_pickle=True)
    named = {name: array for name, array in arrays() if "int32" in name or "text" in name}
    np.savez(directory / "stored.npz", **named)
    np.savez_compressed(directory / "deflated.npz", **named)
    (directory / "names.txt").write_text("\n".join(named))
    cases(directory / "allclose.txt")


def check(directory):
    checked = 0
    for path in sorted((directory / "in").iterdir()):
        wanted = np.load(path)
        if wanted.dtype.kind == "S":
            wanted = np.char.decode(wanted, "utf-8")
        wanted = np.ascontiguousarray(wanted, wanted.dtype.newbyteorder("<")).reshape(wanted.shape)
        canonical = io.BytesIO()
        np.save(canonical, wanted)
        found = (directory / "out" / path.name).read_bytes()
        assert found == canonical.getvalue(), f"{path.name}: {found[:200]} is not {canonical.getvalue()[:200]}"
        checked += 1
    with np.load(directory / "stored.npz") as wanted, np.load(directory / "ours.npz") as found:
        assert wanted.files == found.files, (wanted.files, found.files)
        for name in wanted.files:
            assert found[name].shape == wanted[name].shape, name
            assert found[name].dtype == wanted[name].dtype.newbyteorder("<"), name
            assert (found[name] == wanted[name]).all(), name
            checked += 1
    print(f"{checked} arrays are the same")


NUMBERS = ["float32", "float64"] + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


def edges(dtype):
    """Numbers at which casts begin to change values, as far as the type has them."""
    edges = [0, 1, -1, 0.5, -2.5, 1e-46, 0.1, 1e39, 3.4028235677973366e38, 3.4028235e38, np.nan, np.inf, -np.inf, 16777217]
    for bits in (7, 8, 15, 16, 24, 31, 32, 53, 63, 64, 127):
        edges += [sign * 2**bits + near for sign in (1, -1) for near in (-1, 0, 1)]
    info = np.finfo(dtype) if np.dtype(dtype).kind == "f" else np.iinfo(dtype)
    if np.dtype(dtype).kind == "f":
        with np.errstate(over="ignore"):
            edges = np.array([float(edge) for edge in edges]).astype(dtype)
        return np.concatenate([edges, np.array([info.max, info.min, info.tiny, info.smallest_subnormal], dtype)])
    return np.array([edge for edge in edges if isinstance(edge, int) and info.min <= edge <= info.max], dtype)


def keeps(element, dtype):
    """Whether `astype` gives the element's value; of a float, the nearest finite one. In exact arithmetic, not by NumPy's own casts back."""
    if np.dtype(dtype).kind == "f" and element.dtype.kind in "iub":
        # Every value of these types is finite as a float64.
        return int(element) == int(element.astype(dtype))
    if np.dtype(dtype).kind == "f":
        with np.errstate(over="ignore"):
            return bool(np.isfinite(element.astype(dtype)) or not np.isfinite(element))
    info = np.iinfo(dtype)
    return bool(np.isfinite(element)) and int(element) == element.item() and info.min <= int(element) <= info.max


def casts(directory):
    for source in NUMBERS:
        elements = edges(source)
        for target in NUMBERS:
            kept = np.array([keeps(element, target) for element in elements])
            with np.errstate(over="ignore"):
                expected = elements[kept].astype(target)
            np.save(directory / f"{source}-{target}-kept.npy", elements[kept])
            np.save(directory / f"{source}-{target}-expected.npy", expected)
            refused = {f"{number}": element for number, element in enumerate(elements[~kept])}
            np.savez(directory / f"{source}-{target}-refused.npz", **refused)


if __name__ == "__main__":
    {"cases": cases, "casts": casts, "make": make, "check": check}[sys.argv[1]](Path(sys.argv[2]))
