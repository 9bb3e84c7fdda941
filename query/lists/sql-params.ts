/** Collects the values of one statement as typed parameters: nothing a client sends is ever part of the text. */
import type { SqlParams } from '../../store/columns/column-store.ts';

export class Params {
  readonly #values: Record<string, unknown> = {};
  #count = 0;

  /** Binds a value and answers its place in the SQL text. */
  add(value: unknown, type: string): string {
    const name = `v${this.#count++}`;
    this.#values[name] = value;
    return `{${name}:${type}}`;
  }

  /** Any double, bit for bit: text forms of NaN and of long fractions are not relied on. */
  double(value: number): string {
    const bits = new DataView(new ArrayBuffer(8));
    bits.setFloat64(0, value);
    return `reinterpretAsFloat64(${this.add(bits.getBigUint64(0).toString(), 'UInt64')})`;
  }

  values(): SqlParams {
    return this.#values;
  }
}
