/**
 * A set of names that only grows, at about 14 bytes a name: it keeps 64 bits of each name's sha256. Two of a million names share them with a
 * probability of 3e-8. For what must be remembered for ever but is never listed: rollouts and groups a feed is done with.
 */
import { hash } from 'node:crypto';

const FIRST_SLOTS = 64;
const MAX_LOAD = 0.6;

export class DigestSet {
  #words: Uint32Array<ArrayBuffer>;
  #size = 0;

  /** `digests` as `toBytes` gave them. */
  constructor(digests: Uint8Array = new Uint8Array(0)) {
    if (digests.length % 8 !== 0) throw new RangeError(`${digests.length} bytes are not whole digests of 8 bytes`);
    const count = digests.length / 8;
    let slots = FIRST_SLOTS;
    while (count > slots * MAX_LOAD) slots *= 2;
    this.#words = new Uint32Array(slots * 2);
    const view = new DataView(digests.buffer, digests.byteOffset, digests.byteLength);
    for (let i = 0; i < count; i++) this.#insert(view.getUint32(i * 8, true), view.getUint32(i * 8 + 4, true));
  }

  get size(): number {
    return this.#size;
  }

  has(name: string): boolean {
    if (this.#size === 0) return false;
    const [high, low] = digestOf(name);
    return this.#words[this.#slotOf(high, low)] !== 0;
  }

  /** False when it was there. */
  add(name: string): boolean {
    return this.#insert(...digestOf(name));
  }

  /** The digests, 8 bytes each, in any order. */
  digests(): Uint8Array {
    const bytes = new Uint8Array(this.#size * 8);
    const view = new DataView(bytes.buffer);
    let at = 0;
    for (let i = 0; i < this.#words.length; i += 2) {
      const high = this.#words[i] as number;
      if (high === 0) continue;
      view.setUint32(at, high, true);
      view.setUint32(at + 4, this.#words[i + 1] as number, true);
      at += 8;
    }
    return bytes;
  }

  /** The digests in ascending order: the same bytes for the same set, however it came about. */
  toBytes(): Uint8Array {
    const bytes = this.digests();
    const view = new DataView(bytes.buffer);
    const sorted = BigUint64Array.from({ length: this.#size }, (_, i) => swapped(view.getBigUint64(i * 8, true))).sort();
    sorted.forEach((pair, i) => view.setBigUint64(i * 8, swapped(pair), true));
    return bytes;
  }

  #insert(high: number, low: number): boolean {
    const slot = this.#slotOf(high, low);
    if (this.#words[slot] !== 0) return false;
    this.#words[slot] = high;
    this.#words[slot + 1] = low;
    this.#size++;
    if (this.#size * 2 > this.#words.length * MAX_LOAD) this.#grow();
    return true;
  }

  /** Where the digest is, or the free slot where it belongs. */
  #slotOf(high: number, low: number): number {
    const mask = this.#words.length - 2;
    let slot = (low << 1) & mask;
    for (;;) {
      const found = this.#words[slot];
      if (found === 0 || (found === high && this.#words[slot + 1] === low)) return slot;
      slot = (slot + 2) & mask;
    }
  }

  #grow(): void {
    const old = this.#words;
    this.#words = new Uint32Array(old.length * 2);
    this.#size = 0;
    for (let i = 0; i < old.length; i += 2) if (old[i] !== 0) this.#insert(old[i] as number, old[i + 1] as number);
  }
}

/** The other word first. */
function swapped(pair: bigint): bigint {
  return ((pair & 0xffff_ffffn) << 32n) | (pair >> 32n);
}

/** The high word is never 0: that marks a free slot. */
function digestOf(name: string): [high: number, low: number] {
  const digest = hash('sha256', name, 'buffer');
  return [digest.readUInt32LE(0) || 1, digest.readUInt32LE(4)];
}
