/** A buffer beyond this is let go when it has been far larger than needed for a while. */
const LARGE_BYTES = 1024 * 1024;
/** How fast a large need is forgotten: of twelve fillings a fifth is left. */
const REMEMBERED = 7 / 8;
const TOO_LARGE = 4;

/**
 * A growing byte buffer, kept over `clear` as long as fillings come that need it. `take` hands the bytes out and starts anew; `view` shows them without copying (valid
 * until the next write).
 */
export class ByteWriter {
  #buffer: Buffer;
  /** What the last fillings needed, the larger the longer remembered. */
  #needed = 0;
  length = 0;

  constructor(initialBytes = 1024) {
    this.#buffer = Buffer.allocUnsafeSlow(initialBytes);
  }

  /** Makes room for `extra` more bytes and returns the buffer to write into at `length`; the caller moves `length`. */
  reserve(extra: number): Buffer {
    const need = this.length + extra;
    if (need > this.#buffer.length) {
      const grown = Buffer.allocUnsafeSlow(Math.max(need, this.#buffer.length * 2));
      this.#buffer.copy(grown, 0, 0, this.length);
      this.#buffer = grown;
    }
    return this.#buffer;
  }

  byte(value: number): void {
    this.reserve(1)[this.length++] = value;
  }

  bytes(source: Uint8Array): void {
    this.reserve(source.length).set(source, this.length);
    this.length += source.length;
  }

  /** Well-formed text as UTF-8. Lone surrogates would become U+FFFD: callers check `isWellFormed` first where it matters. */
  utf8(text: string): void {
    const target = this.reserve(text.length * 3);
    this.length += target.write(text, this.length, 'utf8');
  }

  view(): Buffer {
    return this.#buffer.subarray(0, this.length);
  }

  take(): Buffer {
    const taken = Buffer.from(this.view());
    this.length = 0;
    return taken;
  }

  clear(): void {
    if (this.#buffer.length > LARGE_BYTES) this.#shrink();
    this.length = 0;
  }

  #shrink(): void {
    this.#needed = Math.max(this.length, this.#needed * REMEMBERED);
    if (this.#needed * TOO_LARGE > this.#buffer.length) return;
    this.#buffer = Buffer.allocUnsafeSlow(Math.max(LARGE_BYTES, Math.ceil(2 * this.#needed)));
  }
}
