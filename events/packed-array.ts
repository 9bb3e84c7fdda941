/** Element types of token streams and tensors that travel as RFC 8746 typed arrays. */
export const DTYPES = {
  u8: 1, u16: 2, u32: 4, u64: 8, i8: 1, i16: 2, i32: 4, i64: 8, f16: 2, f32: 4, f64: 8,
} as const; // prettier-ignore
export type Dtype = keyof typeof DTYPES;

type TypedArrayOf = { u8: Uint8Array; u32: Uint32Array; f32: Float32Array; f64: Float64Array; i32: Int32Array; u16: Uint16Array };

/**
 * A typed array that stays bytes: `bytes` are little-endian elements of `dtype`, possibly a view into a larger buffer and possibly
 * unaligned. Hot paths copy `bytes`; `typed()` gives a real typed array (a view when aligned, else one copy).
 */
export class PackedArray<D extends Dtype = Dtype> {
  readonly dtype: D;
  readonly bytes: Uint8Array;

  constructor(dtype: D, bytes: Uint8Array) {
    if (bytes.length % DTYPES[dtype] !== 0) throw new RangeError(`${bytes.length} bytes are not whole ${dtype} elements`);
    this.dtype = dtype;
    this.bytes = bytes;
  }

  /** Wraps a typed array without copying (the platform is little-endian; asserted at load). */
  static of(array: Uint8Array): PackedArray<'u8'>;
  static of(array: Uint16Array): PackedArray<'u16'>;
  static of(array: Uint32Array): PackedArray<'u32'>;
  static of(array: Int32Array): PackedArray<'i32'>;
  static of(array: Float32Array): PackedArray<'f32'>;
  static of(array: Float64Array): PackedArray<'f64'>;
  static of(array: Uint8Array | Uint16Array | Uint32Array | Int32Array | Float32Array | Float64Array): PackedArray {
    return new PackedArray(dtypeOf(array), new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
  }

  /** Number of elements. */
  get length(): number {
    return this.bytes.length / DTYPES[this.dtype];
  }

  typed(): D extends keyof TypedArrayOf ? TypedArrayOf[D] : never {
    const { bytes } = this;
    const aligned = bytes.byteOffset % DTYPES[this.dtype] === 0;
    const source = aligned ? bytes : bytes.slice();
    const make = CONSTRUCTORS[this.dtype as keyof TypedArrayOf];
    return new make(source.buffer as ArrayBuffer, source.byteOffset, this.length) as D extends keyof TypedArrayOf ? TypedArrayOf[D] : never;
  }
}

const CONSTRUCTORS = { u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, i32: Int32Array, f32: Float32Array, f64: Float64Array } as const;

function dtypeOf(array: ArrayBufferView): Dtype {
  for (const [dtype, make] of Object.entries(CONSTRUCTORS)) if (array instanceof make) return dtype as Dtype;
  throw new TypeError('no packed form for this typed array');
}

if (new Uint8Array(new Uint16Array([1]).buffer)[0] !== 1) throw new Error('this platform is big-endian: packed arrays need little-endian');
