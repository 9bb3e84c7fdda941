/** RFC 8746 section 2.1: tags 64 to 87 as (element type, byte order). */
import { DTYPES, type Dtype } from '../packed-array.ts';

export type TypedArrayTag = { readonly dtype: Dtype; readonly width: number; readonly bigEndian: boolean };

const BIG: readonly (readonly [number, Dtype])[] = [[65, 'u16'], [66, 'u32'], [67, 'u64'], [73, 'i16'], [74, 'i32'], [75, 'i64'], [80, 'f16'], [81, 'f32'], [82, 'f64']]; // prettier-ignore
/** Tag 68 (clamped uint8) is read as u8: clamping is a rule for writing, not a property of the values. */
const LITTLE: readonly (readonly [number, Dtype])[] = [[68, 'u8'], [64, 'u8'], [69, 'u16'], [70, 'u32'], [71, 'u64'], [72, 'i8'], [77, 'i16'], [78, 'i32'], [79, 'i64'], [84, 'f16'], [85, 'f32'], [86, 'f64']]; // prettier-ignore

const FIRST_TAG = 64;
const BY_TAG: (TypedArrayTag | null)[] = Array.from({ length: 24 }, () => null);
for (const [tag, dtype] of BIG) BY_TAG[tag - FIRST_TAG] = { dtype, width: DTYPES[dtype], bigEndian: true };
for (const [tag, dtype] of LITTLE) BY_TAG[tag - FIRST_TAG] = { dtype, width: DTYPES[dtype], bigEndian: false };

/** What a tag says about the byte string it encloses; null when it is no typed array that we know (128-bit floats are not). */
export function typedArrayOf(tag: number): TypedArrayTag | null {
  return BY_TAG[tag - FIRST_TAG] ?? null;
}

/** The tag that we write for an element type: little-endian. */
export const TAG_OF: Readonly<Record<Dtype, number>> = Object.fromEntries(LITTLE.map(([tag, dtype]) => [dtype, tag])) as Record<
  Dtype,
  number
>;

/** A copy of big-endian elements with the bytes of each turned round. */
export function littleEndian(bytes: Uint8Array, width: number): Uint8Array {
  const swapped = Buffer.from(bytes);
  if (width === 2) swapped.swap16();
  else if (width === 4) swapped.swap32();
  else if (width === 8) swapped.swap64();
  return new Uint8Array(swapped.buffer, swapped.byteOffset, swapped.byteLength);
}
