import type { ByteWriter } from '../../base/byte-writer.ts';

const LINEAR_UP_TO = 16;

/**
 * The keys of all open objects, as ranges of what was written: finds a repeated key without making strings. Objects with many keys switch to a
 * set of strings, so that a wide object stays linear. Ranges stay valid because nothing already written is moved while an object is open.
 */
export class KeySet {
  readonly #out: ByteWriter;
  /** Pairs (start, end) of all open objects; the innermost lies last. */
  readonly #ranges: number[] = [];
  readonly #wide: Map<number, Set<string>> = new Map();

  constructor(out: ByteWriter) {
    this.#out = out;
  }

  /** Opens an object; the answer names it in the other calls. */
  open(): number {
    return this.#ranges.length;
  }

  close(scope: number): void {
    this.#ranges.length = scope;
    if (this.#wide.size > 0) this.#wide.delete(scope);
  }

  /** False when the object already has the key that was written to `[start, end)`. */
  add(scope: number, start: number, end: number): boolean {
    const ranges = this.#ranges;
    const count = (ranges.length - scope) / 2;
    if (count >= LINEAR_UP_TO) return this.#addWide(scope, start, end);
    const bytes = this.#out.reserve(0);
    for (let i = scope; i < ranges.length; i += 2) {
      const known = ranges[i] as number;
      if ((ranges[i + 1] as number) - known === end - start && sameBytes(bytes, known, start, end - start)) return false;
    }
    ranges.push(start, end);
    return true;
  }

  #addWide(scope: number, start: number, end: number): boolean {
    const bytes = this.#out.reserve(0);
    let set = this.#wide.get(scope);
    if (set === undefined) {
      set = new Set();
      for (let i = scope; i < this.#ranges.length; i += 2) set.add(bytes.toString('latin1', this.#ranges[i], this.#ranges[i + 1]));
      this.#wide.set(scope, set);
    }
    const key = bytes.toString('latin1', start, end);
    if (set.has(key)) return false;
    set.add(key);
    return true;
  }
}

function sameBytes(bytes: Buffer, a: number, b: number, length: number): boolean {
  for (let i = 0; i < length; i++) if (bytes[a + i] !== bytes[b + i]) return false;
  return true;
}
