"""Packed genotypes: the numbers of literal definitions, from memory and from files."""

from __future__ import annotations

import os

import bed_reader
import numpy as np
import pandas
import polars
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from hushcov.exceptions import (
    CapacityError,
    DataError,
    HushcovError,
    ParameterError,
    RecordsFileError,
)
from hushcov_genotypes import kernels as genotype_kernels
from hushcov_genotypes import reading
from hushcov_genotypes.kernels import CODES, row_words
from hushcov_genotypes.reading import (
    LARGEST_VALUE,
    BedFile,
    GenotypeRecords,
    open_genotypes,
    write_bed,
)


def some_genotypes(n, d, missing, generator):
    """Some variants miss calls, others do not."""
    X = generator.integers(0, 3, (n, d)).astype(np.int8)
    X[generator.random((n, d)) < missing * generator.integers(0, 2, d)] = -1
    return X


def values(X, slopes, offsets):
    """v = slope * copies - offset, and 0 where missing, as integers of any size."""
    return np.where(X < 0, 0, slopes * X.astype(np.int64) - offsets).astype(object)


def literal_norms(X, slopes, offsets, ends, owned, pair, diagonal):
    v = values(X, slopes, offsets)
    norms = []
    for row, calls in zip(v, X, strict=True):
        total = 0
        for i in range(owned):
            total += sum(pair**2 * (row[i] * row[j]) ** 2 for j in range(i + 1, ends[i]))
            total += diagonal**2 * row[i] ** 4 if calls[i] >= 0 else 0
        norms.append(total)
    return norms


def literal_products(X, kept, slopes, offsets, ends, owned):
    v = values(X, slopes, offsets)[kept]
    pairs = [sum(v[:, i] * v[:, j]) for i in range(owned) for j in range(i + 1, ends[i])]
    return pairs, [sum(v[:, i] ** 2) for i in range(owned)]


def some_ends(start, stop, end, reach, generator):
    own = np.arange(start, stop)
    ends = own + generator.integers(0, reach + 2, len(own))
    return np.minimum(np.maximum.accumulate(ends), end)


def below(norms, literal):
    return [found < true for found, true in zip(norms.tolist(), literal, strict=True)]


def near(norms, literal, more=2e-4):
    return all(
        true <= found <= true * (1 + more) + 1
        for found, true in zip(norms.tolist(), literal, strict=True)
    )


@settings(max_examples=12, deadline=None)
@given(
    n=st.integers(1, 80),
    d=st.integers(1, 10),
    block=st.integers(1, 15),
    reach=st.integers(0, 15),
    missing=st.sampled_from([0.0, 0.3, 1.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_kernels_are_their_definitions(n, d, block, reach, missing, seed):
    generator = np.random.default_rng(seed)
    X = some_genotypes(n, d, missing, generator)
    done = 0
    for part in open_genotypes(X).blocks(block, reach):
        assert part.start == done
        assert part.stop == min(done + block, d)
        assert part.end == min(part.stop + reach, d)
        done = part.stop
        here, owned = X[:, part.start : part.end], part.stop - part.start
        sums, calls = part.counts()
        assert sums.tolist() == np.where(here < 0, 0, here.astype(int) - 1).sum(axis=0).tolist()
        assert calls.tolist() == (here >= 0).sum(axis=0).tolist()
        slopes, offsets = generator.integers(0, 400, (2, here.shape[1]))
        ends = some_ends(part.start, part.stop, part.end, reach, generator)
        local, numbers = ends - part.start, (3, 2)
        norms = part.squared_norms(slopes, offsets, ends, *numbers)
        assert near(norms, literal_norms(here, slopes, offsets, local, owned, *numbers))
        kept = generator.random(n) < 0.7
        pairs, own = part.products(kept, slopes, offsets, ends)
        literal = literal_products(here, kept, slopes, offsets, local, owned)
        assert (pairs.tolist(), own.tolist()) == literal
    assert done == d


def test_more_records_and_variants_than_are_held_at_a_time(monkeypatch):
    """Strips of words, of planes and of variants, and parts for threads, at their seams."""
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    generator = np.random.default_rng(0)
    n, d, reach = 70_001, 150, 3
    X = some_genotypes(n, d, 0.1, generator)
    assert n > 16 * genotype_kernels._NORM_WORDS
    assert n > 64 * genotype_kernels._PLANE_WORDS
    assert d > 2 * genotype_kernels._PLANE_VARIANTS
    (block,) = open_genotypes(X).blocks(d, 0)
    slopes, offsets = generator.integers(0, 400, (2, d))
    ends = np.minimum(np.arange(d) + 1 + reach, d)
    v = np.where(X < 0, 0, slopes * X.astype(np.int64) - offsets)
    pairs = [(i, j) for i in range(d) for j in range(i + 1, ends[i])]
    exact = sum(4 * (v[:, i] * v[:, j]) ** 2 for i, j in pairs) + (v**4).sum(axis=1)
    norms = block.squared_norms(slopes, offsets, ends, 2, 1)
    assert np.all(norms >= exact)
    assert np.all(norms <= exact * (1 + 2e-4))
    kept = generator.random(n) < 0.5
    sums, own = block.products(kept, slopes, offsets, ends)
    v = v[kept]
    assert sums.tolist() == [int(v[:, i] @ v[:, j]) for i, j in pairs]
    assert own.tolist() == (v**2).sum(axis=0).tolist()


@pytest.fixture(scope="module")
def many():
    """Many variants of few persons, with the largest values that are allowed."""
    generator = np.random.default_rng(1)
    n, d, width = 64, 700, 30
    X = some_genotypes(n, d, 0.01, generator)
    (block,) = open_genotypes(X).blocks(d, 0)
    offsets = generator.integers(1, 900, d)
    slopes = (LARGEST_VALUE + offsets) // 2
    ends = np.minimum(np.arange(d) + 1 + width, d)
    u = np.where(X < 0, 0, slopes * X.astype(np.int64) - offsets) ** 2
    sums = np.concatenate([np.zeros((n, 1), dtype=np.int64), np.cumsum(u, axis=1)], axis=1)
    windows = sums[:, ends] - sums[:, 1:]
    exact = [
        sum(int(a) * int(b) + int(a) ** 2 for a, b in zip(*rows, strict=True))
        for rows in zip(u, windows, strict=True)
    ]
    return block, (slopes, offsets, ends), exact


def test_bounds_are_never_below_norms(many):
    block, maps, exact = many
    assert near(block.squared_norms(*maps, 1, 1), exact, 5e-3)


def test_what_rounding_loses_must_be_added(many, monkeypatch):
    """Without it, and without rounding squares up, some bounds would be below."""
    block, maps, exact = many
    monkeypatch.setattr(genotype_kernels, "_MORE", 1.0)
    monkeypatch.setattr(genotype_kernels, "LARGEST_EXACT_FLOAT32", 2**40)
    assert any(below(block.squared_norms(*maps, 1, 1), exact))


def test_norms_are_the_same_wherever_a_person_stands():
    """Also beside other persons, and at the seams of words, lanes and threads: to the last bit.

    Where a person is removed, others move up. Were their norms to change, so would many counts.
    """
    generator = np.random.default_rng(4)
    n, d, width = 1037, 600, 40
    one, other = some_genotypes(2, d, 0.05, generator)[:, None]
    maps = generator.integers(200, 300, d), generator.integers(0, 400, d)
    ends = np.minimum(np.arange(d) + 1 + width, d)
    alone, same, mixed = (
        next(open_genotypes(X).blocks(d, 0)).squared_norms(*maps, ends, 2, 1)
        for X in (one, np.repeat(one, n, axis=0), np.vstack([one, other] * (n // 2)))
    )
    assert set(same.tolist()) == {alone[0]}
    assert set(mixed[::2].tolist()) == {alone[0]}


def test_norms_beyond_integers_are_the_largest(many):
    block, maps, _ = many
    norms = block.squared_norms(*maps, 2**15, 1)
    assert set(norms.tolist()) == {np.iinfo(np.int64).max}


@pytest.fixture(scope="module")
def table():
    """Fewer persons than fill words; every person, and every variant, misses calls."""
    return some_genotypes(77, 23, 0.2, np.random.default_rng(2))


def results(records: GenotypeRecords):
    """All numbers of all blocks."""
    found = []
    for block in records.blocks(5, 4):
        length = block.end - block.start
        maps = np.full(length, 90), np.arange(length), np.full(block.stop - block.start, block.end)
        kept = np.arange(records.n_records) % 3 > 0
        each = *block.counts(), block.squared_norms(*maps, 2, 1), *block.products(kept, *maps)
        found += [numbers.tolist() for numbers in each]
    return found


NAMES = [f"v{i}" for i in range(23)]


def as_objects(X):
    return np.where(X < 0, None, X.astype(object))


def as_floats(X):
    return np.where(X < 0, np.nan, X)


FORMS = {
    "by variants": np.asfortranarray,
    "int64": lambda X: X.astype(np.int64) * np.where(X < 0, 9, 1),  # -9, as PLINK writes it
    "float64": as_floats,
    "float32 by variants": lambda X: np.asfortranarray(as_floats(X).astype(np.float32)),
    "objects": as_objects,
    "every second of": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "masked": lambda X: np.ma.masked_array(np.abs(X), mask=X < 0),
    "pandas": lambda X: pandas.DataFrame(as_floats(X), columns=NAMES),
    "pandas nullable": lambda X: pandas.DataFrame(as_objects(X), columns=NAMES).astype("Int8"),
    "polars": lambda X: polars.DataFrame(as_floats(X), schema=NAMES).fill_nan(None),
    "arrow": lambda X: pyarrow.table([pyarrow.array(each) for each in as_objects(X).T], NAMES),
}


@pytest.mark.parametrize("form", FORMS)
def test_same_numbers_from_memory(table, form):
    records = open_genotypes(FORMS[form](table))
    assert (records.n_records, records.n_features) == table.shape
    named = form.partition(" ")[0] in ("pandas", "polars", "arrow")
    assert records.feature_names == (tuple(NAMES) if named else None)
    assert results(records) == results(open_genotypes(table))


@pytest.mark.parametrize("form", [".npy", ".npy by variants", ".parquet", ".bed"])
def test_same_numbers_from_files(table, form, tmp_path):
    path = tmp_path / f"genotypes{form.partition(' ')[0]}"
    if path.suffix == ".npy":
        np.save(path, np.asfortranarray(table) if "by" in form else table)
    elif path.suffix == ".parquet":
        parquet.write_table(FORMS["arrow"](table), path, row_group_size=20)
    else:
        write_bed(path, table, names=NAMES)
    records = open_genotypes(str(path))
    assert results(records) == results(open_genotypes(table))
    assert records.feature_names == (None if path.suffix == ".npy" else tuple(NAMES))
    assert (records.positions is None) == (path.suffix != ".bed")


WRONG = {
    "three copies": lambda X: np.where(X < 0, 3, X),
    "between": lambda X: np.where(X < 0, 0.5, X),
    "infinite": lambda X: np.where(X < 0, np.inf, X),
    "uint8 is not negative": lambda X: X.astype(np.uint8),
    "three copies by variants": lambda X: np.asfortranarray(np.where(X < 0, 3, X)),
}


@pytest.mark.parametrize("form", WRONG)
def test_other_numbers_are_refused(table, form):
    with pytest.raises(DataError, match="0, 1 or 2 copies") as refusal:
        results(open_genotypes(WRONG[form](table)))
    for value in ("0.5", "inf", "255", "3"):
        assert value not in str(refusal.value)


def test_what_is_no_table_is_refused(table, tmp_path):
    for wrong in (table[0], np.array([["a"]]), table.astype(complex)):
        with pytest.raises(DataError):
            open_genotypes(wrong)
    with pytest.raises(DataError, match="plink2 --make-bed"):
        open_genotypes(tmp_path / "genotypes.vcf")
    frame = pandas.DataFrame({"a": [0, 1], "who": ["x", "y"]})
    frame.to_parquet(tmp_path / "who.parquet")
    for wrong in (frame, tmp_path / "who.parquet", polars.DataFrame(frame)):
        with pytest.raises(DataError, match="who"):
            open_genotypes(wrong)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match="damaged"):
        open_genotypes(tmp_path / "broken.parquet")
    parquet.write_table(pyarrow.table({"a": pyarrow.array([], "int8")}), tmp_path / "none.parquet")
    assert open_genotypes(tmp_path / "none.parquet").n_records == 0


def test_wrong_sizes_of_blocks_are_refused(table):
    records = open_genotypes(table)
    with pytest.raises(ParameterError, match="n_variants"):
        next(records.blocks(0, 1))
    with pytest.raises(ParameterError, match="reach"):
        next(records.blocks(1, -1))


def test_a_table_that_changes_is_refused(table):
    """Compiled loops would read beyond it, or count what fills words as genotypes."""
    frame = pandas.DataFrame(table.astype(float))
    records = open_genotypes(frame)
    frame.loc[len(frame)] = 1.0
    with pytest.raises(DataError, match="must stay as it is"):
        results(records)


def test_more_persons_than_sums_are_exact_for_are_refused():
    with pytest.raises(CapacityError, match="at most 2,147,483,648 persons"):
        GenotypeRecords((2**31 + 1, 3), lambda *_: None)


def test_wrong_maps_are_refused(table):
    block = next(open_genotypes(table).blocks(5, 4))
    one, ends, kept = np.ones(9, dtype=np.int64), np.arange(1, 6), np.ones(77, dtype=bool)
    for maps, words in (
        ((one[:-1], one, ends), "9 entries"),
        ((one, one, ends[:-1]), "at least 5"),
        ((one * 1.5, one, ends), "integers"),
        ((one * (LARGEST_VALUE + 1), one, ends), "within 1024"),
        ((one, one * -(LARGEST_VALUE + 1), ends), "within 1024"),
        ((one * -(2**63), 0 * one, ends), "within 1024"),  # twice that is 0 in 64 bits
        ((one, one * -(2**63), ends), "within 1024"),
        ((one, one, ends[::-1]), "not decrease"),
        ((one, one, ends + 5), "at most 9"),
    ):
        with pytest.raises(ParameterError, match=words):
            block.products(kept, *maps)
    with pytest.raises(ParameterError, match="pair_weight"):
        block.squared_norms(one, one, ends, 0, 1)
    for wrong in (kept[:-1], kept.astype(int)):
        with pytest.raises(ParameterError, match="each of 77 persons"):
            block.products(wrong, one, one, ends)


HEADER = 3


def some_calls(n, d, seed=0):
    return np.random.default_rng(seed).integers(-1, 3, (n, d)).astype(np.int8)


def unpacked(path):
    """Copies of the counted allele by the two bits of each code."""
    file = BedFile(path)
    codes = np.full((file.n_features, row_words(file.n_records)), 0xFFFFFFFF, dtype=np.uint32)
    file.read(0, file.n_features, codes)
    shifts = 2 * np.arange(CODES, dtype=np.uint32)
    found = (codes[:, :, None] >> shifts & 3).reshape(file.n_features, -1)
    assert not found[:, file.n_records :].any()  # what fills the rows is zero
    return np.array([2, -1, 1, 0], dtype=np.int8)[found[:, : file.n_records]].T


@pytest.fixture
def bed(tmp_path):
    path = tmp_path / "some.bed"
    write_bed(path, some_calls(13, 7))
    return path


@pytest.mark.parametrize("n", [1, 4, 6, 61, 64, 259])
def test_written_as_read_by_us_and_by_others(n, tmp_path):
    calls, path = some_calls(n, 11), tmp_path / "some.bed"
    names, positions = [f"rs{i}" for i in range(11)], np.arange(11) * 1000 + 5
    write_bed(path, calls, names=names, chromosomes=["X"] * 11, positions=positions)
    with bed_reader.open_bed(path) as other:
        assert np.array_equal(np.where(calls < 0, -127, calls), other.read(dtype="int8"))
        ours = open_genotypes(path)
        assert (ours.n_records, ours.n_features) == other.shape
        assert list(ours.feature_names) == other.sid.tolist() == names
        assert list(ours.chromosomes) == other.chromosome.tolist()
        assert ours.positions.tolist() == other.bp_position.tolist() == positions.tolist()
    assert np.array_equal(unpacked(path), calls)


def test_read_as_written_by_others(tmp_path):
    calls, path = some_calls(10, 5), tmp_path / "other.bed"
    bed_reader.to_bed(path, np.where(calls < 0, -127, calls).astype(np.int8))
    assert np.array_equal(unpacked(path), calls)


def test_bits_that_fill_the_last_byte_do_not_matter(bed):
    content = bytearray(bed.read_bytes())
    row = -(-13 // 4)
    content[HEADER + row - 1 :: row] = bytes(b | 0xFC for b in content[HEADER + row - 1 :: row])
    bed.write_bytes(content)
    assert np.array_equal(unpacked(bed), some_calls(13, 7))


@pytest.mark.parametrize("most", [0, 1, 5])
def test_a_system_that_reads_less_at_a_time(bed, most, monkeypatch):
    """Or that cannot fill several rows at all."""
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda file, size, at: pread(file, min(size, most or 3), at))
    if most:

        def some(file, buffers, offset):
            return os.readv(file, [buffers[0][:most]]) if os.lseek(file, offset, 0) else 0

        monkeypatch.setattr(os, "preadv", some)
    else:
        monkeypatch.delattr(os, "preadv")
    assert np.array_equal(unpacked(bed), some_calls(13, 7))


def rewritten(path, ending, change):
    file = path.with_suffix(ending)
    file.write_bytes(change(file.read_bytes()))


BROKEN = {
    "another file": (".bed", lambda b: b"PK" + b[2:], "must begin as a PLINK"),
    "empty": (".bed", lambda b: b"", "must begin as a PLINK"),
    "person by person": (".bed", lambda b: b[:2] + b"\0" + b[3:], "got person by person"),
    "cut off": (".bed", lambda b: b[:-1], "got fewer"),
    "of more persons": (".fam", lambda b: b * 2, "got fewer"),
    "of nobody": (".fam", lambda b: b"", "a line for each person"),
    "of one without a line": (".fam", lambda b: b"\n", "none of them blank"),
    "a blank line": (".fam", lambda b: b.replace(b"5 5 0 0 0 -9\n", b"\n"), "of them blank"),
    "a line of spaces": (".fam", lambda b: b.replace(b"5 5 0 0 0 -9\n", b" \t\r\n"), "blank"),
    "a line of other spaces": (".fam", lambda b: b.replace(b"5 5 0 0 0 -9", b"\x0b\x0c"), "blank"),
    "a blank line at the end": (".fam", lambda b: b + b"\n", "none of them blank"),
    "no end of the last line": (".fam", lambda b: b[:-1], "a line with an end"),
    "other ends of lines": (".fam", lambda b: b.replace(b"\n", b"\r"), "a line with an end"),
    "another end of a line": (".fam", lambda b: b.replace(b"-9\n", b"-9\r", 1), "with an end"),
    "a blank line of variants": (".bim", lambda b: b.replace(b"\n", b"\n\n", 1), "in each line"),
    "of no variants": (".bim", lambda b: b"", "in each line"),
    "without alleles": (".bim", lambda b: b.replace(b"\tA\tG", b""), "in each line"),
    "without positions": (".bim", lambda b: b.replace(b"\t0\t", b"\t0\tx"), "whole numbers"),
    "no text": (".bim", lambda b: b.replace(b"variant2", b"\xff"), "UTF-8"),
    "of one name": (".bim", lambda b: b.replace(b"variant2", b"variant1"), "name of its own"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_files_are_refused(bed, kind):
    ending, change, words = BROKEN[kind]
    rewritten(bed, ending, change)
    with pytest.raises(DataError, match=words) as refusal:
        open_genotypes(bed)
    assert "plink2 --" in str(refusal.value)


def test_whatever_a_person_is_called_the_number_stays(bed):
    """Signs at which Python's `splitlines` ends a line, and the line ends of another system."""
    for sign in ("\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\x0b", "\x0c", "\0"):
        rewritten(bed, ".fam", lambda b, sign=sign: b.replace(b"5 5 0", f"5{sign}5 0".encode(), 1))
        assert open_genotypes(bed).n_records == 13
    for ending in (".fam", ".bim"):
        rewritten(bed, ending, lambda b: b.replace(b"\n", b"\r\n"))
    assert (open_genotypes(bed).n_records, open_genotypes(bed).n_features) == (13, 7)
    rewritten(bed, ".fam", lambda b: b"x\r\n" * 13)
    assert open_genotypes(bed).n_records == 13


def test_persons_are_nowhere_in_what_is_said(bed):
    secret = "FAMILY-OF-SOMEBODY"
    rewritten(bed, ".fam", lambda b: b.replace(b"1 1 0", secret.encode() + b" 1 0", 1))
    records = open_genotypes(bed)
    assert secret not in repr(vars(records))
    rewritten(bed, ".fam", lambda b: b + b)
    with pytest.raises(DataError) as refusal:
        open_genotypes(bed)
    assert secret not in str(refusal.value)


@pytest.mark.parametrize("ending", [".bed", ".bim", ".fam"])
def test_files_that_are_not_there(bed, ending):
    bed.with_suffix(ending).unlink()
    with pytest.raises(RecordsFileError, match=r"does not exist|cannot be read"):
        open_genotypes(bed)


def test_a_file_that_shrinks_while_it_is_read(bed):
    blocks = open_genotypes(bed).blocks(2, 0)  # one is read ahead
    next(blocks)
    os.truncate(bed, HEADER)
    with pytest.raises(HushcovError, match="stay as it is"):
        list(blocks)


def test_what_cannot_be_written(tmp_path):
    with pytest.raises(ParameterError, match=r"must end in \.bed"):
        write_bed(tmp_path / "some.vcf", some_calls(3, 2))
    for wrong in ([some_calls(3, 2), some_calls(4, 2)], np.full((3, 2), 3, dtype=np.int8)):
        with pytest.raises(DataError, match="0, 1 or 2"):
            write_bed(tmp_path / "some.bed", wrong)


def test_variants_are_read_by_the_released_number_of_persons(monkeypatch):
    """In as many pieces for a person more: how often a file is read would tell of them."""
    monkeypatch.setattr(reading, "_PIECE_BYTES", 8 * 40)
    pieces, right = [], reading.pack_calls
    monkeypatch.setattr(reading, "pack_calls", lambda *a: pieces[-1].append(1) or right(*a))
    for n in (10, 14):
        pieces.append([])
        found = open_genotypes(np.ones((n, 9), dtype=np.int8)).counted(10)
        assert sum(len(block.codes) for block in found.blocks(9, 0)) == 9
    assert [len(each) for each in pieces] == [3, 3]
