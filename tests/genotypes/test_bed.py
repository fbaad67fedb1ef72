"""PLINK files: the same genotypes as another package reads, each byte once; broken ones refused."""

from __future__ import annotations

import itertools
import os

import bed_reader
import numpy as np
import pytest

from hushcov.exceptions import DataError, HushcovError, ParameterError, RecordsFileError
from hushcov.genotypes.kernels import CODES, row_words
from hushcov.genotypes.reading import BedFile, open_genotypes, write_bed

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


def test_written_block_by_block(tmp_path, bed):
    calls, path = some_calls(13, 7), tmp_path / "blocks.bed"
    write_bed(path, (calls[:, start : start + 3] for start in range(0, 7, 3)))
    for ending in (".bed", ".bim", ".fam"):
        assert path.with_suffix(ending).read_bytes() == bed.with_suffix(ending).read_bytes()


def test_bits_that_fill_the_last_byte_do_not_matter(bed):
    content = bytearray(bed.read_bytes())
    row = -(-13 // 4)
    content[HEADER + row - 1 :: row] = bytes(b | 0xFC for b in content[HEADER + row - 1 :: row])
    bed.write_bytes(content)
    assert np.array_equal(unpacked(bed), some_calls(13, 7))


def test_each_byte_is_read_once_and_in_order(bed, monkeypatch):
    spans, preadv = [], os.preadv

    def watched(file, buffers, offset):
        spans.append((offset, offset + sum(len(each) for each in buffers)))
        return preadv(file, buffers, offset)

    monkeypatch.setattr(os, "preadv", watched)
    monkeypatch.setattr("hushcov.genotypes.reading._ROWS_AT_ONCE", 2)
    for _ in open_genotypes(bed).blocks(2, 3):
        pass
    assert spans[0][0] == HEADER
    assert spans[-1][1] == bed.stat().st_size
    assert all(before[1] == after[0] for before, after in itertools.pairwise(spans))


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
    with pytest.raises(RecordsFileError, match="cannot be read"):
        open_genotypes(bed)


def test_a_file_that_shrinks_while_it_is_read(bed):
    blocks = open_genotypes(bed).blocks(3, 1)
    next(blocks)
    os.truncate(bed, HEADER)
    with pytest.raises(HushcovError, match="stay as it is"):
        list(blocks)


def test_variants_without_names_have_their_place(bed):
    rewritten(bed, ".bim", lambda b: b.replace(b"variant3", b".").replace(b"variant5", b"."))
    names = open_genotypes(bed).feature_names
    assert names[1:5] == ("variant2", "1:3:A:G", "variant4", "1:5:A:G")


def test_what_cannot_be_written(tmp_path):
    with pytest.raises(ParameterError, match=r"must end in \.bed"):
        write_bed(tmp_path / "some.vcf", some_calls(3, 2))
    for wrong in ([some_calls(3, 2), some_calls(4, 2)], np.full((3, 2), 3, dtype=np.int8)):
        with pytest.raises(DataError, match="0, 1 or 2"):
            write_bed(tmp_path / "some.bed", wrong)
