"""Wild values: arrays full of markers that no message may quote, and things that are no numbers."""

import datetime
import json
import random
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

#: Parts of the values in every array made here.
MARKERS = ("1234.567", "9876543219", "s3cret", "-0.0076543")
FLOATS = (1234.56789, -0.00765432109, 1234567.89012)
INTEGER, TEXT = 98765432198765, "s3cret"
EXTREME = (np.nan, np.inf, -np.inf, 5e-324, -5e-324, 1e308, -1e308, 0.0, -0.0, 1e-200, 2.0**63)


class Evil:
    """Fails at whatever is asked of it."""

    def _fail(self, *_: object) -> Any:
        raise RuntimeError(TEXT)

    __repr__ = __str__ = __float__ = __int__ = __len__ = __bool__ = __iter__ = _fail
    __eq__ = __lt__ = __array__ = _fail
    __hash__ = object.__hash__


class OddFloat(float):
    """A float that says something else of itself."""

    def __repr__(self) -> str:
        return "odd"


def array(rng: random.Random) -> np.ndarray:
    """An array of up to 40 by 6 in any dtype, layout and number of dimensions."""
    shape = rng.choice(
        [(rng.randrange(41), rng.randrange(7)), (rng.randrange(2, 41), rng.randrange(1, 7))] * 4
        + [(), (5,), (0,), (0, 3), (3, 0), (1, 1), (2, 3, 2), (1,) * 30]
    )
    rows = _filled(rng, shape)
    return _laid_out(rng, rows)


def _filled(rng: random.Random, shape: tuple[int, ...]) -> np.ndarray:
    kind = rng.choice(["floats"] * 6 + ["extreme"] * 3 + list(_FILLS))
    size = int(np.prod(shape))
    if kind in ("floats", "extreme"):
        pool = FLOATS if kind == "floats" else (*FLOATS, rng.choice(EXTREME))
        flat = np.array([rng.choice(pool) * rng.choice((1, 1, -1)) for _ in range(size)], float)
        with np.errstate(all="ignore"):
            return flat.astype(rng.choice(["f8", "f8", "f8", ">f8", "f4", "f2", "g"])).reshape(
                shape
            )
    return _FILLS[kind](rng, size).reshape(shape)


def _objects(rng: random.Random, size: int) -> np.ndarray:
    odd = [None, TEXT, 1j, Evil(), Decimal("1234.56789"), [], 10**400, np.float64(1234.56789)]
    usual = [1234.56789, INTEGER, True, Fraction(1, 3)]
    found = np.empty(size, dtype=object)
    wrong = rng.random() < 0.7
    for i in range(size):
        found[i] = rng.choice(odd if wrong and rng.random() < 0.2 else usual)
    return found


_FILLS: dict[str, Callable[[random.Random, int], np.ndarray]] = {
    "objects": _objects,
    "integers": lambda rng, size: np.full(size, INTEGER + rng.randrange(9)),
    "unsigned": lambda rng, size: np.full(size, 2**64 - 1 - rng.randrange(9), np.uint64),
    "bools": lambda rng, size: np.full(size, rng.random() < 0.5),
    "text": lambda _, size: np.full(size, TEXT),
    "bytes": lambda _, size: np.full(size, TEXT.encode()),
    "complex": lambda _, size: np.full(size, 1234.56789 + 1j),
    "times": lambda _, size: np.full(size, np.datetime64("2026-01-01")),
    "spans": lambda _, size: np.full(size, np.timedelta64(INTEGER, "s")),
    "structured": lambda _, size: np.zeros(size, dtype=[("a", "f8"), (TEXT, "i4")]),
    "void": lambda _, size: np.zeros(size, dtype="V8"),
}


def _laid_out(rng: random.Random, rows: np.ndarray) -> np.ndarray:
    how = rng.choice(
        ("plain", "plain", "fortran", "strided", "reversed", "frozen", "matrix", "masked")
    )
    if how == "fortran":
        return np.asfortranarray(rows)
    if how == "strided" and rows.ndim == 2:
        return np.repeat(rows, 2, axis=1)[:, ::2]
    if how == "reversed" and rows.ndim >= 1:
        return rows[::-1]
    if how == "frozen":
        rows.setflags(write=False)
    if how == "matrix" and rows.ndim == 2 and rows.dtype.kind == "f":
        return rows.view(np.recarray) if rng.random() < 0.1 else rows.view(np.matrix)
    if how == "masked" and rng.random() < 0.3:
        return np.ma.masked_invalid(rows) if rows.dtype.kind == "f" else np.ma.array(rows)
    return rows


def source(rng: random.Random, folder: Path) -> object:
    rows = array(rng)
    how = rng.randrange(12)
    if how == 0:
        return rows.tolist() if rows.ndim else [rows.tolist()]  # text alone would be a path
    if how == 1 and rows.dtype.kind != "O":
        np.save(folder / "mapped.npy", np.asarray(rows))
        return np.load(folder / "mapped.npy", mmap_mode="r" if rows.size else None)
    if how == 2:
        return rng.choice(
            [None, 3, "nowhere", "", Evil(), [], [[]], [[1, 2], [3]], {}, {1: rows}, iter([1])]
        )
    return rows


def parameter(rng: random.Random, usual: tuple[object, ...] = ()) -> object:
    if usual and rng.random() < 0.33:
        return rng.choice(usual)
    return rng.choice(_wild(rng))


def _wild(rng: random.Random) -> list[object]:
    return [
        *(None, True, False, 0, -1, 1, 2, 3.5, np.nan, np.inf, -np.inf, 1e-320, 1e308, -0.0),
        *(10**400, -(10**5000), 10**18, 2**63, 1e-30, 1e-3, 0.05, 9.99),
        *("auto", "", "x" * 1000, "row", "1", "nan", b"x", "\0", "\ud800", "a/b", "nowhere.npy"),
        *([], {}, (), set(), [1.0, 2.0, 3.0], range(3), {"a": 1}, (1, 2), [[1]], [TEXT]),
        *(object(), Evil(), OddFloat(0.5), lambda: 0, int, np, ..., NotImplemented),
        *(Fraction(1, 3), Fraction(10**400, 3), Decimal("0.1"), Decimal("nan"), 1j),
        *(np.float64(0.5), np.float32(0.1), np.int64(2), np.uint8(3), np.bool_(True), np.str_("x")),
        *(np.array(1.0), np.array([1.0, 2.0, 3.0]), np.zeros(3), np.full(3, np.nan), np.ma.masked),
        *(np.array([1e-300] * 3), np.array([1e300] * 3), np.array(["a"] * 3), np.array([None] * 3)),
        *(np.datetime64("2026-01-01"), datetime.date(2026, 1, 1), Path("nowhere"), Path("/")),
        *(np.random.default_rng(0), np.random.RandomState(0), random.Random(0), float("1e-12")),
        np.full((20, 3), rng.choice(FLOATS)),
        [[rng.choice(FLOATS)] * 3] * 4,
    ]


def json_value(rng: random.Random) -> object:
    return rng.choice(
        [
            *(None, True, False, 0, 1, -1, 2, 3, 0.5, 1e308, -1e308, 5e-324, 10**30, 10**400),
            *("", "x", "screened", "Gaussian", "\x1b[2J", "\0", "é" * 300, "2026-01-01T00:00:00Z"),
            *([], [[]], {}, [0], [1, 2, 3], [[0], [1]], [[0, 1], [1, 2]], [None] * 3, ["a"] * 3),
            *({"type": "Pure", "epsilon": 1}, {"a": {"b": []}}, float("nan"), float("inf")),
            json.loads("[" * 50 + "]" * 50),
            *RAW,
        ]
    )


def json_number(rng: random.Random) -> object:
    usual = (1e308, 1e155, 1e-155, 5e-324, 1e30, 10**30, 10**299, 2**62, 0, -1, 1e-9)
    return rng.choice((*usual, *RAW))


#: Texts that stand for numbers which no JSON writer writes: beyond doubles, and of many digits.
RAW = {"raw:inf": "1e999", "raw:tiny": "1e-999", "raw:long": "9" * 5000, "raw:digits": "9" * 4000}


def json_text(value: object) -> str:
    text = json.dumps(value)
    for name, number in RAW.items():
        text = text.replace(json.dumps(name), number)
    return text


def toml(rng: random.Random) -> bytes:
    keys = ("epsilon", "delta", "data", "columns", "plan", "budget", "feature-scale", "a.b", "x")
    wild = (
        *("1", "1e999", "9" * 5000, "nan", "[" * 3000, "[" * 3000 + "]" * 3000, "'x'", "true"),
        *("{a = " * 2000, "[1, 2]", "2026-01-01", '"\\ud800"', "0x" + "f" * 9000, "{}", "-inf"),
    )
    lines = [f"{rng.choice(keys)} = {rng.choice(wild)}" for _ in range(rng.randrange(1, 4))]
    lines += [rng.choice(("", "[plan]", "[budget]", "[" + "a." * 3000 + "b]", "[[data]]"))]
    text = "\n".join(lines).encode()
    return mutated(rng, text) if rng.random() < 0.2 else text


def pairs_file(rng: random.Random, path: Path) -> Path:
    words = ("0", "1", "2", "9" * 5000, "-1", "1.5", "x", "é", '"', "1e5", "\0", "0" * 5000)
    how = rng.randrange(4)
    if how == 0:
        path = path.with_suffix(".npz")
        shape = rng.choice(((3, 3), (3, 4), (10**6, 10**6)))
        sparse.save_npz(path, sparse.coo_array(([1.0], ([0], [1])), shape=shape))
    elif how == 1:
        path = path.with_suffix(".npy")
        array = _filled(rng, (rng.randrange(4), 2))
        np.save(path, np.zeros(3) if array.dtype.kind in "US" else array)  # names may be quoted
    else:
        path = path.with_suffix(rng.choice((".csv", ".txt", ".parquet")))
        rows = [[rng.choice(words) for _ in range(rng.randrange(1, 4))] for _ in range(3)]
        path.write_text("\n".join(rng.choice(", \t;").join(row) for row in rows), "utf-8")
    if rng.random() < 0.4:
        path.write_bytes(mutated(rng, path.read_bytes()))
    return path


def mutated(rng: random.Random, content: bytes) -> bytes:
    """The same bytes with some of them changed, lost, doubled or added."""
    found = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 5, 20))):
        at = rng.randrange(len(found) + 1)
        if rng.random() < 0.5:
            at = min(at, rng.randrange(130))  # headers are at the beginning
        how = rng.randrange(7)
        if how == 0 and at < len(found):
            found[at] ^= 1 << rng.randrange(8)
        elif how == 1 and at < len(found):
            found[at] = rng.choice(b"\0\xff0123456789-(){}[],:'\" <>|OifcSV\n")
        elif how == 2:
            del found[at:]
        elif how == 3:
            del found[at : at + rng.randrange(1, 9)]
        elif how == 4:
            found[at:at] = rng.choice((b"9", b"999999999", b"\0" * 8, b"-", b"(", b"True", b"'O'"))
        elif how == 5:
            found += bytes(rng.randrange(1, 20))
        else:
            found[at:at] = found[at : at + rng.randrange(1, 40)]
    return bytes(found)
