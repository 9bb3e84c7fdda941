import { ByteWriter } from '../../base/byte-writer.ts';

const COPY_BY_LOOP = 16;
const INSERTION_UP_TO = 32;
/** A map of more pieces than this is copied together, so that the maps around it do not move its pieces again and again. */
const JOIN_OVER = 4096;

/**
 * Bytes as a list of pieces: ranges of a source, and literals in a scratch. Map entries are sorted by moving their pieces; the bytes are copied
 * once, by `gather`. Re-used: `reset` starts anew. Integers lie in typed arrays, so that nothing is allocated per event.
 */
export class PieceList {
  #source: Buffer = Buffer.alloc(0);
  readonly #scratch = new ByteWriter(1024);
  /** Two numbers per piece: its start, as -1 - start when it lies in the scratch, and its length. */
  #pieces = new Int32Array(512);
  #count = 0;
  /** Pieces below this index are not extended. */
  #closed = 0;
  /** Two numbers per entry of the maps that are open: first piece, length of the key. */
  #entries = new Int32Array(256);
  #entryCount = 0;
  /** Scratch of `#sort`. */
  #order = new Int32Array(64);
  #moved = new Int32Array(512);

  reset(source: Buffer): void {
    this.#source = source;
    this.#scratch.clear();
    this.cut(0);
    this.#entryCount = 0;
  }

  /** Number of pieces so far: a mark for `cut` and `gather`. */
  get count(): number {
    return this.#count;
  }

  /** Bytes that the list holds on to. */
  get heldBytes(): number {
    return this.#scratch.reserve(0).length + this.#pieces.byteLength + this.#moved.byteLength + this.#entries.byteLength;
  }

  /** Appends a range of the source. */
  keep(start: number, end: number): void {
    const last = this.#count - 1;
    const pieces = this.#pieces;
    if (last >= this.#closed) {
      const before = pieces[2 * last] as number;
      const length = pieces[2 * last + 1] as number;
      if (before >= 0 && before + length === start) {
        pieces[2 * last + 1] = length + end - start;
        return;
      }
    }
    this.#add(start, end - start);
  }

  #add(start: number, length: number): number {
    const at = 2 * this.#count;
    if (at === this.#pieces.length) this.#pieces = doubled(this.#pieces);
    this.#pieces[at] = start;
    this.#pieces[at + 1] = length;
    return this.#count++;
  }

  /** Appends what `write` writes. */
  literal(write: (scratch: ByteWriter) => void): void {
    this.fill(this.placeholder(), write);
  }

  /** Appends an empty piece that `fill` fills later. */
  placeholder(): number {
    return this.#add(-1, 0);
  }

  fill(piece: number, write: (scratch: ByteWriter) => void): void {
    const start = this.#scratch.length;
    write(this.#scratch);
    this.#pieces[2 * piece] = -1 - start;
    this.#pieces[2 * piece + 1] = this.#scratch.length - start;
  }

  /** Forgets the pieces from `mark` on. */
  cut(mark: number): void {
    this.#count = mark;
    this.#closed = mark;
  }

  /** What comes next is a piece of its own. */
  close(): void {
    this.#closed = this.#count;
  }

  /** Whether a piece has these bytes. */
  equals(piece: number, bytes: Uint8Array): boolean {
    if (this.#pieces[2 * piece + 1] !== bytes.length) return false;
    const start = this.#pieces[2 * piece] as number;
    const from = start >= 0 ? this.#source : this.#scratch.reserve(0);
    const at = start >= 0 ? start : -1 - start;
    for (let i = 0; i < bytes.length; i++) if (from[at + i] !== bytes[i]) return false;
    return true;
  }

  /** Begins a map; the answer goes to `closeMap`. */
  openMap(): number {
    return this.#entryCount;
  }

  /** Begins an entry: its key comes next, as one piece. */
  openEntry(): void {
    this.close();
    const at = 2 * this.#entryCount++;
    if (at === this.#entries.length) this.#entries = doubled(this.#entries);
    this.#entries[at] = this.#count;
  }

  endKey(): void {
    this.#entries[2 * this.#entryCount - 1] = this.#pieces[2 * this.#count - 1] as number;
  }

  /** Sorts the entries of the map by the bytes of their keys. */
  closeMap(map: number): void {
    const count = this.#entryCount;
    let sorted = true;
    for (let i = map + 1; sorted && i < count; i++) sorted = this.#compareKeys(i - 1, i) < 0;
    if (!sorted) this.#sort(map);
    const first = map < count ? (this.#entries[2 * map] as number) : this.#count;
    this.#entryCount = map;
    if (this.#count - first > JOIN_OVER) this.#join(first);
    this.close();
  }

  #sort(map: number): void {
    const count = this.#entryCount - map;
    if (count > this.#order.length) this.#order = new Int32Array(2 * count);
    const order = this.#order;
    for (let i = 0; i < count; i++) order[i] = map + i;
    if (count > INSERTION_UP_TO) order.subarray(0, count).sort((a, b) => this.#compareKeys(a, b));
    else this.#insertionSort(order, count);
    const from = 2 * (this.#entries[2 * map] as number);
    const end = 2 * this.#count;
    if (this.#moved.length < end - from) this.#moved = new Int32Array(2 * (end - from));
    const moved = this.#moved;
    let to = 0;
    for (let i = 0; i < count; i++) {
      const entry = order[i] as number;
      const last = entry + 1 < this.#entryCount ? 2 * (this.#entries[2 * entry + 2] as number) : end;
      for (let p = 2 * (this.#entries[2 * entry] as number); p < last; p++) moved[to++] = this.#pieces[p] as number;
    }
    for (let p = 0; p < to; p++) this.#pieces[from + p] = moved[p] as number;
  }

  #insertionSort(order: Int32Array, count: number): void {
    for (let i = 1; i < count; i++) {
      const entry = order[i] as number;
      let j = i - 1;
      for (; j >= 0 && this.#compareKeys(order[j] as number, entry) > 0; j--) order[j + 1] = order[j] as number;
      order[j + 1] = entry;
    }
  }

  /** Byte order of the encoded keys of two entries; keys of different length differ in their heads. */
  #compareKeys(a: number, b: number): number {
    const startA = this.#pieces[2 * (this.#entries[2 * a] as number)] as number;
    const startB = this.#pieces[2 * (this.#entries[2 * b] as number)] as number;
    const bytesA = startA >= 0 ? this.#source : this.#scratch.reserve(0);
    const bytesB = startB >= 0 ? this.#source : this.#scratch.reserve(0);
    const atA = startA >= 0 ? startA : -1 - startA;
    const atB = startB >= 0 ? startB : -1 - startB;
    const length = Math.min(this.#entries[2 * a + 1] as number, this.#entries[2 * b + 1] as number);
    for (let i = 0; i < length; i++) {
      const difference = (bytesA[atA + i] as number) - (bytesB[atB + i] as number);
      if (difference !== 0) return difference;
    }
    return 0;
  }

  #join(first: number): void {
    const joined = new ByteWriter(1024);
    this.gather(first, joined);
    this.cut(first);
    this.literal((scratch) => scratch.bytes(joined.view()));
  }

  /** Appends the bytes of the pieces from `mark` on to `out`. */
  gather(mark: number, out: ByteWriter): void {
    const pieces = this.#pieces;
    const end = 2 * this.#count;
    const scratch = this.#scratch.reserve(0);
    let total = 0;
    for (let p = 2 * mark; p < end; p += 2) total += pieces[p + 1] as number;
    const target = out.reserve(total);
    let at = out.length;
    for (let p = 2 * mark; p < end; p += 2) {
      const start = pieces[p] as number;
      const length = pieces[p + 1] as number;
      if (start >= 0) copy(this.#source, start, length, target, at);
      else copy(scratch, -1 - start, length, target, at);
      at += length;
    }
    out.length = at;
  }
}

function copy(from: Buffer, start: number, length: number, to: Buffer, at: number): void {
  if (length > COPY_BY_LOOP) from.copy(to, at, start, start + length);
  else for (let i = 0; i < length; i++) to[at + i] = from[start + i] as number;
}

function doubled(full: Int32Array<ArrayBuffer>): Int32Array<ArrayBuffer> {
  const larger = new Int32Array(full.length * 2);
  larger.set(full);
  return larger;
}
