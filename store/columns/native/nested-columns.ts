/** Columns made of other columns: Nullable and Array. */
import { ByteWriter } from '../../../base/byte-writer.ts';
import { DTYPES, PackedArray } from '../../../events/packed-array.ts';
import { appendFilled, FixedColumn, type BytesSink, type ColumnWriter } from './column-writers.ts';

/** Size of the running end of one list. */
const END_BYTES = 8;

/** Null flags beside a column that holds blanks where the flag is set. `undefined` counts as null. Nulls are only counted until a value comes. */
export class NullableColumn<Cell> implements ColumnWriter<Cell | null | undefined> {
  readonly #inner: ColumnWriter<Cell>;
  readonly #flags = new ByteWriter(64);
  #pending = 0;

  constructor(inner: ColumnWriter<Cell>) {
    this.#inner = inner;
  }

  append(cell: Cell | null | undefined): void {
    if (cell === null || cell === undefined) {
      this.#pending++;
      return;
    }
    this.#flush();
    this.#flags.byte(0);
    this.#inner.append(cell);
  }

  appendBlanks(count: number): void {
    this.#flush();
    appendFilled(this.#flags, count, 0);
    this.#inner.appendBlanks(count);
  }

  get blankBytes(): number {
    return 1 + this.#inner.blankBytes;
  }

  #flush(): void {
    if (this.#pending === 0) return;
    appendFilled(this.#flags, this.#pending, 1);
    this.#inner.appendBlanks(this.#pending);
    this.#pending = 0;
  }

  get bytes(): number {
    return this.#flags.length + this.#inner.bytes + this.#pending * this.blankBytes;
  }

  writeTo(out: BytesSink): void {
    this.#flush();
    out.bytes(this.#flags.view());
    this.#inner.writeTo(out);
  }

  clear(): void {
    this.#pending = 0;
    this.#flags.clear();
    this.#inner.clear();
  }
}

/** What an array cell may be: packed or typed arrays of the same element width are copied as bytes, anything else cell by cell. */
export type ArrayCell<Cell> = Iterable<Cell> | PackedArray | null | undefined;

/**
 * Lists. null and undefined are written as the empty list: ClickHouse has no null list, so presence is a column of its own. Empty lists are only
 * counted until a list with elements comes.
 */
export class ArrayColumn<Cell> implements ColumnWriter<ArrayCell<Cell>> {
  readonly #inner: ColumnWriter<Cell>;
  readonly #ends = new ByteWriter(256);
  #elements = 0;
  #pending = 0;

  constructor(inner: ColumnWriter<Cell>) {
    this.#inner = inner;
  }

  append(cell: ArrayCell<Cell>): void {
    if (cell === null || cell === undefined) {
      this.#pending++;
      return;
    }
    this.#flush();
    if (cell instanceof PackedArray) this.#appendPacked(cell);
    else if (ArrayBuffer.isView(cell)) this.#appendPacked(PackedArray.of(cell as Uint8Array));
    else {
      for (const element of cell) {
        this.#inner.append(element);
        this.#elements++;
      }
    }
    this.#appendEnd();
  }

  appendBlanks(count: number): void {
    this.#pending += count;
  }

  get blankBytes(): number {
    return END_BYTES;
  }

  #flush(): void {
    for (; this.#pending > 0; this.#pending--) this.#appendEnd();
  }

  #appendEnd(): void {
    const ends = this.#ends;
    const buffer = ends.reserve(END_BYTES);
    buffer.writeUInt32LE(this.#elements % 2 ** 32, ends.length);
    buffer.writeUInt32LE(Math.floor(this.#elements / 2 ** 32), ends.length + 4);
    ends.length += END_BYTES;
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
    return this.#ends.length + this.#inner.bytes + this.#pending * END_BYTES;
  }

  writeTo(out: BytesSink): void {
    this.#flush();
    out.bytes(this.#ends.view());
    this.#inner.writeTo(out);
  }

  clear(): void {
    this.#pending = 0;
    this.#ends.clear();
    this.#inner.clear();
    this.#elements = 0;
  }
}
