/**
 * Reads ClickHouse's RowBinary: values one after another, little-endian, no header; text and lists begin with their length as a varint.
 * Enough for our own fixed queries; arrays are handed out as views of their bytes.
 */
export class RowBinary {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#bytes.length;
  }

  uint8(): number {
    return this.#bytes.readUInt8(this.#advance(1));
  }

  uint32(): number {
    return this.#bytes.readUInt32LE(this.#advance(4));
  }

  /** UInt64 as a number; counts here are far below 2^53. */
  uint64(): number {
    return Number(this.#bytes.readBigUInt64LE(this.#advance(8)));
  }

  /** A list of fixed-width elements: its bytes, not copied. */
  list(elementBytes: number): Uint8Array {
    const length = this.#varint() * elementBytes;
    const start = this.#advance(length);
    return this.#bytes.subarray(start, start + length);
  }

  #varint(): number {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = this.uint8();
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
    }
  }

  #advance(bytes: number): number {
    const start = this.#at;
    if (start + bytes > this.#bytes.length) throw new RangeError('a RowBinary answer ends inside a value');
    this.#at = start + bytes;
    return start;
  }
}
