/** MessagePack for arrays of numbers, texts and nil: what prime-rl's transport holds. Floats keep their width, so that a float32 is read back exactly. */

const INITIAL_BYTES = 1 << 16;

export class MsgpackWriter {
  #bytes = new Uint8Array(INITIAL_BYTES);
  #view = new DataView(this.#bytes.buffer);
  #length = 0;

  /** What was written; valid until the next write. */
  bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  nil(): void {
    this.#byte(0xc0);
  }

  array(length: number): void {
    if (length < 16) this.#byte(0x90 | length);
    else if (length < 0x1_0000) this.#head(0xdc, length, 2);
    else this.#head(0xdd, length, 4);
  }

  /** Whole numbers from -2^31 to 2^32 - 1. */
  integer(value: number): void {
    if (value >= 0 && value < 0x80) this.#byte(value);
    else if (value >= 0 && value < 0x100) this.#head(0xcc, value, 1);
    else if (value >= 0 && value < 0x1_0000) this.#head(0xcd, value, 2);
    else if (value >= 0) this.#head(0xce, value, 4);
    else this.#head(0xd2, value >>> 0, 4);
  }

  text(value: string): void {
    const bytes = Buffer.from(value, 'utf8');
    if (bytes.length < 32) this.#byte(0xa0 | bytes.length);
    else if (bytes.length < 0x100) this.#head(0xd9, bytes.length, 1);
    else this.#head(0xda, bytes.length, 2);
    this.#reserve(bytes.length);
    this.#bytes.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  integers(values: ArrayLike<number>): void {
    this.array(values.length);
    this.#reserve(values.length * 5);
    for (let i = 0; i < values.length; i++) this.integer(values[i] as number);
  }

  booleans(values: ArrayLike<number>): void {
    this.array(values.length);
    this.#reserve(values.length);
    for (let i = 0; i < values.length; i++) this.#bytes[this.#length++] = values[i] === 0 ? 0xc2 : 0xc3;
  }

  float32s(values: Float32Array): void {
    this.array(values.length);
    this.#reserve(values.length * 5);
    for (const value of values) {
      this.#bytes[this.#length] = 0xca;
      this.#view.setFloat32(this.#length + 1, value);
      this.#length += 5;
    }
  }

  #head(tag: number, value: number, width: 1 | 2 | 4): void {
    this.#byte(tag);
    this.#reserve(width);
    if (width === 1) this.#view.setUint8(this.#length, value);
    else if (width === 2) this.#view.setUint16(this.#length, value);
    else this.#view.setUint32(this.#length, value);
    this.#length += width;
  }

  #byte(value: number): void {
    this.#reserve(1);
    this.#bytes[this.#length++] = value;
  }

  #reserve(more: number): void {
    if (this.#length + more <= this.#bytes.length) return;
    const grown = new Uint8Array(Math.max(this.#bytes.length * 2, this.#length + more));
    grown.set(this.bytes());
    this.#bytes = grown;
    this.#view = new DataView(grown.buffer);
  }
}
