/** Token ids and log-probabilities while an answer comes in: typed arrays that grow by doubling, no object per token. */
export class GrowingIds {
  #array = new Uint32Array(32);
  length = 0;

  push(id: number): void {
    if (this.length === this.#array.length) this.#array = grown(this.#array, new Uint32Array(2 * this.length));
    this.#array[this.length++] = id;
  }

  append(ids: GrowingIds): void {
    for (let i = 0; i < ids.length; i++) this.push(ids.#array[i] as number);
  }

  clear(): void {
    this.length = 0;
  }

  /** A copy of exactly what was pushed. */
  take(): Uint32Array {
    return this.#array.slice(0, this.length);
  }
}

/** Rounded to float32, as the engine sampled them. */
export class GrowingFloats {
  #array = new Float32Array(32);
  length = 0;

  push(value: number): void {
    if (this.length === this.#array.length) this.#array = grown(this.#array, new Float32Array(2 * this.length));
    this.#array[this.length++] = value;
  }

  append(values: GrowingFloats): void {
    for (let i = 0; i < values.length; i++) this.push(values.#array[i] as number);
  }

  clear(): void {
    this.length = 0;
  }

  take(): Float32Array {
    return this.#array.slice(0, this.length);
  }
}

function grown<T extends Uint32Array | Float32Array>(from: T, to: T): T {
  to.set(from);
  return to;
}
