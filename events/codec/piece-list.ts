import { ByteWriter } from '../../base/byte-writer.ts';

const COPY_BY_LOOP = 16;
const INSERTION_UP_TO = 32;
/** A map of more pieces than this is copied together, so that the maps around it do not move its pieces again and again. */
const JOIN_OVER = 4096;

/**
 * Bytes as a list of pieces: ranges of a source, and literals in a scratch. Map entries are sorted by moving their pieces; the bytes are copied
 * once, by `gather`. Re-used: `reset` starts anew.
 */
export class PieceList {
  #source: Buffer = Buffer.alloc(0);
  readonly #scratch = new ByteWriter(1024);
  /** Of each piece: its start, as -1 - start when it lies in the scratch, and its length. */
  readonly #starts: number[] = [];
  readonly #lengths: number[] = [];
  /** Pieces below this index are not extended. */
  #closed = 0;
  /** (first piece, length of the key) of each entry of the maps that are open. */
  readonly #entries: number[] = [];

  reset(source: Buffer): void {
    this.#source = source;
    this.#scratch.clear();
    this.cut(0);
    this.#entries.length = 0;
  }

  /** Number of pieces so far: a mark for `cut` and `gather`. */
  get count(): number {
    return this.#starts.length;
  }

  /** Bytes that the scratch holds on to. */
  get scratchBytes(): number {
    return this.#scratch.reserve(0).length;
  }

  /** Appends a range of the source. */
  keep(start: number, end: number): void {
    const last = this.#starts.length - 1;
    if (
      last >= this.#closed &&
      (this.#starts[last] as number) >= 0 &&
      (this.#starts[last] as number) + (this.#lengths[last] as number) === start
    ) {
      this.#lengths[last] = (this.#lengths[last] as number) + end - start;
    } else {
      this.#starts.push(start);
      this.#lengths.push(end - start);
    }
  }

  /** Appends what `write` writes. */
  literal(write: (scratch: ByteWriter) => void): void {
    this.fill(this.placeholder(), write);
  }

  /** Appends an empty piece that `fill` fills later. */
  placeholder(): number {
    this.#lengths.push(0);
    return this.#starts.push(-1) - 1;
  }

  fill(piece: number, write: (scratch: ByteWriter) => void): void {
    const start = this.#scratch.length;
    write(this.#scratch);
    this.#starts[piece] = -1 - start;
    this.#lengths[piece] = this.#scratch.length - start;
  }

  /** Forgets the pieces from `mark` on. */
  cut(mark: number): void {
    this.#starts.length = mark;
    this.#lengths.length = mark;
    this.#closed = mark;
  }

  /** What comes next is a piece of its own. */
  close(): void {
    this.#closed = this.#starts.length;
  }

  /** Whether a piece of the list has these bytes. */
  equals(piece: number, bytes: Uint8Array): boolean {
    const start = this.#starts[piece] as number;
    const length = this.#lengths[piece] as number;
    if (length !== bytes.length) return false;
    const from = start >= 0 ? this.#source : this.#scratch.reserve(0);
    const at = start >= 0 ? start : -1 - start;
    for (let i = 0; i < length; i++) if (from[at + i] !== bytes[i]) return false;
    return true;
  }

  /** Begins a map; the answer goes to `closeMap`. */
  openMap(): number {
    return this.#entries.length;
  }

  /** Begins an entry: its key comes next, as one piece. */
  openEntry(): void {
    this.close();
    this.#entries.push(this.#closed, 0);
  }

  endKey(): void {
    this.#entries[this.#entries.length - 1] = this.#lengths.at(-1) as number;
  }

  /** Sorts the entries of the map by the bytes of their keys. */
  closeMap(map: number): void {
    const entries = this.#entries;
    let sorted = true;
    for (let i = map + 2; sorted && i < entries.length; i += 2) sorted = this.#compareKeys(i - 2, i) < 0;
    if (!sorted) this.#sort(map);
    const first = entries[map];
    entries.length = map;
    this.#closed = this.#starts.length;
    if (first !== undefined && this.#closed - first > JOIN_OVER) this.#join(first);
  }

  #sort(map: number): void {
    const entries = this.#entries;
    const order: number[] = [];
    for (let i = map; i < entries.length; i += 2) order.push(i);
    if (order.length > INSERTION_UP_TO) order.sort((a, b) => this.#compareKeys(a, b));
    else this.#insertionSort(order);
    const first = entries[map] as number;
    const starts = this.#starts.slice(first);
    const lengths = this.#lengths.slice(first);
    let to = first;
    for (const entry of order) {
      const end = entry + 2 < entries.length ? (entries[entry + 2] as number) : first + starts.length;
      for (let piece = entries[entry] as number; piece < end; piece++) {
        this.#starts[to] = starts[piece - first] as number;
        this.#lengths[to++] = lengths[piece - first] as number;
      }
    }
  }

  #insertionSort(order: number[]): void {
    for (let i = 1; i < order.length; i++) {
      const entry = order[i] as number;
      let j = i - 1;
      for (; j >= 0 && this.#compareKeys(order[j] as number, entry) > 0; j--) order[j + 1] = order[j] as number;
      order[j + 1] = entry;
    }
  }

  /** Byte order of two encoded keys; keys of different length differ in their heads. */
  #compareKeys(a: number, b: number): number {
    const startA = this.#starts[this.#entries[a] as number] as number;
    const startB = this.#starts[this.#entries[b] as number] as number;
    const bytesA = startA >= 0 ? this.#source : this.#scratch.reserve(0);
    const bytesB = startB >= 0 ? this.#source : this.#scratch.reserve(0);
    const atA = startA >= 0 ? startA : -1 - startA;
    const atB = startB >= 0 ? startB : -1 - startB;
    const length = Math.min(this.#entries[a + 1] as number, this.#entries[b + 1] as number);
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
    this.#closed = this.#starts.length;
  }

  /** Appends the bytes of the pieces from `mark` on to `out`. */
  gather(mark: number, out: ByteWriter): void {
    const scratch = this.#scratch.reserve(0);
    let total = 0;
    for (let i = mark; i < this.#lengths.length; i++) total += this.#lengths[i] as number;
    const target = out.reserve(total);
    let at = out.length;
    for (let i = mark; i < this.#starts.length; i++) {
      const start = this.#starts[i] as number;
      const length = this.#lengths[i] as number;
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
