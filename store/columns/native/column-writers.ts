/**
 * The columns of a Native block: each holds its cells as the bytes ClickHouse reads. Format facts (ClickHouse `Native`, protocol revision 0): fixed-width cells
 * little-endian side by side; a string is a varint length and bytes; Nullable is one null byte per row, then all cells; Array is one
 * running end (UInt64) per row, then all elements.
 */
import { ByteWriter } from '../../../base/byte-writer.ts';
import { DTYPES, PackedArray } from '../../../events/packed-array.ts';
import { encodeWtf8 } from '../../../events/codec/wtf8.ts';

/** Collects the cells of one column. Buffers are kept over `clear`. */
export interface ColumnWriter<Cell> {
  append(cell: Cell): void;
  /** Bytes collected so far. */
  readonly bytes: number;
  writeTo(out: ByteWriter): void;
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

  get bytes(): number {
    return this.#cells.length;
  }

  writeTo(out: ByteWriter): void {
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

  writeTo(out: ByteWriter): void {
    out.bytes(this.#cells.view());
  }

  clear(): void {
    this.#cells.clear();
    this.#last = null;
  }
}

/** Null flags beside a column that holds `blank` where the flag is set. `undefined` counts as null. */
export class NullableColumn<Cell> implements ColumnWriter<Cell | null | undefined> {
  readonly #inner: ColumnWriter<Cell>;
  readonly #blank: Cell;
  readonly #nulls = new ByteWriter(64);

  constructor(inner: ColumnWriter<Cell>, blank: Cell) {
    this.#inner = inner;
    this.#blank = blank;
  }

  append(cell: Cell | null | undefined): void {
    const isNull = cell === null || cell === undefined;
    this.#nulls.byte(isNull ? 1 : 0);
    this.#inner.append(isNull ? this.#blank : cell);
  }

  get bytes(): number {
    return this.#nulls.length + this.#inner.bytes;
  }

  writeTo(out: ByteWriter): void {
    out.bytes(this.#nulls.view());
    this.#inner.writeTo(out);
  }

  clear(): void {
    this.#nulls.clear();
    this.#inner.clear();
  }
}

/** What an array cell may be: packed or typed arrays of the same element width are copied as bytes, anything else cell by cell. */
export type ArrayCell<Cell> = Iterable<Cell> | PackedArray | null | undefined;

/** Lists. null and undefined are written as the empty list: ClickHouse has no null list, so presence is a column of its own. */
export class ArrayColumn<Cell> implements ColumnWriter<ArrayCell<Cell>> {
  readonly #inner: ColumnWriter<Cell>;
  readonly #ends = new ByteWriter(256);
  #elements = 0;

  constructor(inner: ColumnWriter<Cell>) {
    this.#inner = inner;
  }

  append(cell: ArrayCell<Cell>): void {
    if (cell instanceof PackedArray) this.#appendPacked(cell);
    else if (ArrayBuffer.isView(cell)) this.#appendPacked(PackedArray.of(cell as Uint8Array));
    else if (cell !== null && cell !== undefined) {
      for (const element of cell) {
        this.#inner.append(element);
        this.#elements++;
      }
    }
    const ends = this.#ends;
    const buffer = ends.reserve(8);
    buffer.writeUInt32LE(this.#elements % 2 ** 32, ends.length);
    buffer.writeUInt32LE(Math.floor(this.#elements / 2 ** 32), ends.length + 4);
    ends.length += 8;
  }

  #appendPacked(cell: PackedArray): void {
    const inner = this.#inner;
    if (!(inner instanceof FixedColumn) || inner.width !== DTYPES[cell.dtype]) {
      throw new TypeError(`an array of ${cell.dtype} does not fit into this column`);
    }
    inner.appendBytes(cell.bytes);
    this.#elements += cell.length;
  }

  get bytes(): number {
    return this.#ends.length + this.#inner.bytes;
  }

  writeTo(out: ByteWriter): void {
    out.bytes(this.#ends.view());
    this.#inner.writeTo(out);
  }

  clear(): void {
    this.#ends.clear();
    this.#inner.clear();
    this.#elements = 0;
  }
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
