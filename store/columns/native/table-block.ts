/** A table as typed columns, and the builder of its Native blocks. */
import { ByteWriter } from '../../../base/byte-writer.ts';
import type { CellOf, ColumnType } from './column-types.ts';
import { appendVarint, type BytesSink, type ColumnWriter } from './column-writers.ts';

// oxlint-disable-next-line typescript/no-explicit-any -- a table may hold columns of any cell type
export type Columns = Readonly<Record<string, ColumnType<any>>>;
export type TableSpec<C extends Columns = Columns> = { readonly name: string; readonly columns: C };
export type RowOf<C extends Columns> = OptionalCells<{ readonly [K in keyof C]: CellOf<C[K]> }>;

/** Cells that may be undefined may be left out. */
type OptionalCells<R> = { readonly [K in keyof R as undefined extends R[K] ? never : K]: R[K] } & {
  readonly [K in keyof R as undefined extends R[K] ? K : never]?: R[K];
};

/** Columns that the server computes are not listed: every listed column is written. */
export function table<C extends Columns>(name: string, columns: C): TableSpec<C> {
  return { name, columns };
}

/** Rows of one table on their way into one Native block. */
export interface TableBlock<C extends Columns = Columns> {
  readonly name: string;
  /** Names in the order of the block, for the INSERT statement. */
  readonly columnNames: readonly string[];
  readonly rows: number;
  /** Size of the cells so far. */
  readonly bytes: number;
  add(row: RowOf<C>): void;
  /** The Native block as views of the cells, which follow each other; valid until the next `add`, `pieces` or `clear`. Throws when there are no rows: an empty block is not inserted. */
  pieces(): readonly Uint8Array[];
  /** The same in one piece of its own. */
  encode(): Uint8Array;
  clear(): void;
}

type OpenColumn = { readonly name: string; readonly wire: string; readonly writer: ColumnWriter<unknown> };

export function openBlock<C extends Columns>(spec: TableSpec<C>): TableBlock<C> {
  const open: OpenColumn[] = Object.entries(spec.columns).map(([name, type]) => ({ name, wire: type.wire, writer: type.open() }));
  const out = new PieceWriter();
  let rows = 0;
  const size = (): number => open.reduce((sum, column) => sum + column.writer.bytes, 0);
  return {
    name: spec.name,
    columnNames: open.map((column) => column.name),
    get rows() {
      return rows;
    },
    get bytes() {
      return size();
    },
    add(row) {
      const cells = row as Readonly<Record<string, unknown>>;
      for (let i = 0; i < open.length; i++) {
        const column = open[i] as OpenColumn;
        column.writer.append(cells[column.name]);
      }
      rows++;
    },
    pieces() {
      if (rows === 0) throw new RangeError(`no rows for ${spec.name}`);
      return piecesOf(open, rows, out);
    },
    encode() {
      return Buffer.concat(this.pieces());
    },
    clear() {
      for (const column of open) column.writer.clear();
      rows = 0;
    },
  };
}

function piecesOf(open: readonly OpenColumn[], rows: number, out: PieceWriter): Uint8Array[] {
  out.clear();
  appendVarint(out.small, open.length);
  appendVarint(out.small, rows);
  for (const column of open) {
    appendText(out.small, column.name);
    appendText(out.small, column.wire);
    column.writer.writeTo(out);
  }
  return out.done();
}

/** Below this a copy is cheaper than a piece of its own. */
const COPY_BELOW = 4096;

/** Keeps large runs of bytes as views and copies small ones together. */
class PieceWriter implements BytesSink {
  readonly small = new ByteWriter(4096);
  #pieces: Uint8Array[] = [];
  #from = 0;

  clear(): void {
    this.small.clear();
    this.#pieces = [];
    this.#from = 0;
  }

  bytes(source: Uint8Array): void {
    if (source.length < COPY_BELOW) return this.small.bytes(source);
    this.#flush();
    this.#pieces.push(source);
  }

  done(): Uint8Array[] {
    this.#flush();
    return this.#pieces;
  }

  /** A buffer that grows leaves the bytes of earlier views where they are. */
  #flush(): void {
    if (this.small.length > this.#from) this.#pieces.push(this.small.view().subarray(this.#from));
    this.#from = this.small.length;
  }
}

function appendText(out: ByteWriter, text: string): void {
  appendVarint(out, Buffer.byteLength(text));
  out.utf8(text);
}
