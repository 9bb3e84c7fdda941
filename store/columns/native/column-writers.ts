/**
 * The columns of a Native block: each holds its cells as the bytes ClickHouse reads. Format facts (ClickHouse `Native`, protocol revision 0): fixed-width cells
 * little-endian side by side; a string is a varint length and bytes; Nullable is one null byte per row, then all cells; Array is one
 * running end (UInt64) per row, then all elements.
 */
import { ByteWriter } from '../../../base/byte-writer.ts';
import { encodeWtf8 } from '../../../events/codec/wtf8.ts';

/** Where the bytes of a column go; they may be kept as a view until the column is written to or cleared. */
export type BytesSink = { bytes(source: Uint8Array): void };

/** Collects the cells of one column. Buffers are kept over `clear`. */
export interface ColumnWriter<Cell> {
  append(cell: Cell): void;
  /** Appends cells of zero bytes: 0, the empty string, the empty list. */
  appendBlanks(count: number): void;
  /** Size of one blank cell. */
  readonly blankBytes: number;
  /** Bytes collected so far. */
  readonly bytes: number;
  writeTo(out: BytesSink): void;
  clear(): void;
}

/** Cells of a fixed width, put one by one or copied as bytes of whole cells. */
export class FixedColumn<Cell> implements ColumnWriter<Cell> {
  readonly width: number;
  readonly #put: (buffer: Buffer, at: number, cell: Cell) => void;
  readonly #cells = new ByteWriter(256);

  constructor(width: number, put: (buffer: Buffer, at: number, cell: Cell) => void) {
    this.width = width;
    this.#put = put;
  }

  append(cell: Cell): void {
    const cells = this.#cells;
    this.#put(cells.reserve(this.width), cells.length, cell);
    cells.length += this.width;
  }

  appendBytes(source: Uint8Array): void {
    this.#cells.bytes(source);
  }

  appendBlanks(count: number): void {
    appendFilled(this.#cells, count * this.width, 0);
  }

  get blankBytes(): number {
    return this.width;
  }

  get bytes(): number {
    return this.#cells.length;
  }

  writeTo(out: BytesSink): void {
    out.bytes(this.#cells.view());
  }

  clear(): void {
    this.#cells.clear();
  }
}

/** Below this length a plain loop beats the call into native string encoding. */
const SHORT = 48;

/** Text or bytes of any length. A cell equal to the one before it is copied from there: ids repeat over many rows. */
export class StringColumn implements ColumnWriter<string | Uint8Array> {
  readonly #cells = new ByteWriter(1024);
  #last: string | null = null;
  #lastStart = 0;
  #lastEnd = 0;

  append(cell: string | Uint8Array): void {
    if (typeof cell !== 'string') this.#appendBytes(cell);
    else if (cell === this.#last) this.#appendLast();
    else {
      this.#lastStart = this.#cells.length;
      if (cell.length >= SHORT || !this.#appendAscii(cell)) this.#appendText(cell);
      this.#last = cell;
      this.#lastEnd = this.#cells.length;
    }
  }

  appendBlanks(count: number): void {
    appendFilled(this.#cells, count, 0);
  }

  get blankBytes(): number {
    return 1;
  }

  #appendLast(): void {
    const cells = this.#cells;
    const size = this.#lastEnd - this.#lastStart;
    const buffer = cells.reserve(size);
    const at = cells.length;
    const from = this.#lastStart;
    if (size <= SHORT) for (let i = 0; i < size; i++) buffer[at + i] = buffer[from + i] as number;
    else buffer.copyWithin(at, from, this.#lastEnd);
    cells.length = at + size;
  }

  #appendBytes(cell: Uint8Array): void {
    appendVarint(this.#cells, cell.length);
    this.#cells.bytes(cell);
  }

  #appendAscii(cell: string): boolean {
    const size = cell.length;
    const cells = this.#cells;
    const buffer = cells.reserve(size + 1);
    let at = cells.length;
    buffer[at++] = size;
    for (let i = 0; i < size; i++) {
      const code = cell.charCodeAt(i);
      if (code > 0x7f) return false;
      buffer[at++] = code;
    }
    cells.length = at;
    return true;
  }

  #appendText(cell: string): void {
    if (!cell.isWellFormed()) {
      const bytes = encodeWtf8(cell);
      appendVarint(this.#cells, bytes.length);
      this.#cells.bytes(bytes);
      return;
    }
    const cells = this.#cells;
    const buffer = cells.reserve(cell.length * 3 + 5);
    const start = cells.length;
    const guess = varintSize(cell.length);
    const size = buffer.write(cell, start + guess, 'utf8');
    const head = varintSize(size);
    if (head !== guess) buffer.copyWithin(start + head, start + guess, start + guess + size);
    appendVarint(cells, size);
    cells.length = start + head + size;
  }

  get bytes(): number {
    return this.#cells.length;
  }

  writeTo(out: BytesSink): void {
    out.bytes(this.#cells.view());
  }

  clear(): void {
    this.#cells.clear();
    this.#last = null;
  }
}

/** Appends `count` equal bytes. */
export function appendFilled(out: ByteWriter, count: number, byte: number): void {
  out.reserve(count).fill(byte, out.length, out.length + count);
  out.length += count;
}

export function varintSize(value: number): number {
  let size = 1;
  for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 0x80)) size++;
  return size;
}

export function appendVarint(out: ByteWriter, value: number): void {
  let rest = value;
  while (rest >= 0x80) {
    out.byte((rest % 0x80) | 0x80);
    rest = Math.floor(rest / 0x80);
  }
  out.byte(rest);
}
