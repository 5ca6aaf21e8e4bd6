#!/usr/bin/env python3
"""Writes the PNG files of golden/, 5 pixels wide and 4 high, without a library for images: the pixel in row y, column x of channel c
has the value (40 * c + 50 * y + 9 * x + 3) % 256 where the file's kind can say it."""
import struct
import zlib
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "golden"
WIDTH, HEIGHT = 5, 4


def value(c, y, x):
    return (40 * c + 50 * y + 9 * x + 3) % 256


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(name, bits, kind, rows, interlaced=0, before=b""):
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, bits, kind, 0, 0, interlaced)
    content = b"".join(b"\0" + row for row in rows)
    (FOLDER / name).write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + before + chunk(b"IDAT", zlib.compress(content)) +
                                chunk(b"IEND", b""))


def rows(channels, ys=range(HEIGHT), xs=range(WIDTH)):
    return [bytes(value(c, y, x) for x in xs for c in range(channels)) for y in ys]


FOLDER.mkdir(exist_ok=True)
png("gray.png", 8, 0, rows(1))
png("gray_alpha.png", 8, 4, rows(2))
png("rgb.png", 8, 2, rows(3))
png("rgba.png", 8, 6, rows(4))
png("rgb16.png", 16, 2, [b"".join(struct.pack(">H", v * 257) for v in row) for row in rows(3)])
# 1 where x + y is odd, eight pixels a byte.
png("bits.png", 1, 0, [bytes([sum(((x + y) % 2) << (7 - x) for x in range(WIDTH))]) for y in range(HEIGHT)])
# A palette of all twenty pixels.
places = [(y, x) for y in range(HEIGHT) for x in range(WIDTH)]
palette = b"".join(bytes(value(c, y, x) for c in range(3)) for y, x in places)
png("palette.png", 8, 3, [bytes(WIDTH * y + x for x in range(WIDTH)) for y in range(HEIGHT)], before=chunk(b"PLTE", palette))
# Adam7: first row and column, and steps, of each pass.
passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
interlaced = [row for y, x, dy, dx in passes for row in rows(3, range(y, HEIGHT, dy), range(x, WIDTH, dx)) if row]
png("interlaced.png", 8, 2, interlaced, interlaced=1)
