/** The vocabulary of fields that all event schemas share. Each says its unit and limit once. */
import { z } from 'zod';
import { isUuid } from '../base/uuid.ts';
import { PackedArray, type Dtype } from './packed-array.ts';

/** Ids of runs, groups, rollouts, traces, feeds: as the producer gave them. */
export const MAX_ID_BYTES = 256;
export const entityId = z
  .string()
  .min(1, 'must not be empty')
  .refine((s) => s.length <= MAX_ID_BYTES && Buffer.byteLength(s) <= MAX_ID_BYTES, {
    message: `must be at most ${MAX_ID_BYTES} bytes of UTF-8`,
  })
  .refine((s) => s.isWellFormed(), { message: 'must be well-formed Unicode' })
  .meta({ maxLength: MAX_ID_BYTES });

/** Event ids: a UUID in canonical lower-case text; version 7 recommended. */
export const eventId = z
  .string()
  .refine(isUuid, { message: 'must be a UUID in canonical lower-case text' })
  .meta({ description: 'UUID, version 7 recommended' });

/** Microseconds since 1970 UTC, between the years 1970 and 2200. */
export const MAX_MICROS = 7_258_118_400_000_000;
export const micros = z.int().min(0).max(MAX_MICROS).meta({ description: 'integer microseconds since 1970 UTC' });

/** Any double: NaN, the infinities and -0 are values. null means "not measured" and is never 0. */
export const float = z
  .custom<number>((v) => typeof v === 'number', { message: 'must be a number' })
  .meta({ type: 'number', description: 'any double, NaN and infinities included' });

export const count = z.int().nonnegative().meta({ description: 'a count' });
export const nodeIndex = z.int().min(0).max(0xffff_fffe).meta({ description: 'index of a node in its trace, from 0' });
export const callIndex = z.int().min(0).max(0xffff_fffe).meta({ description: 'index of a call in its trace, from 0' });
export const policyVersion = z.int().nonnegative().meta({ description: 'weights after optimizer step n' });
export const text = z.string();
export const name = z.string().min(1).max(1024);

/** Anything JSON or CBOR can say; kept as it came. */
export const anything = z.unknown();
export const record = z
  .custom<Record<string, unknown>>(isMap, { message: 'must be an object' })
  .meta({ type: 'object', description: 'free-form object, kept as it came' });

/** True for what a CBOR map or JSON object decodes to; byte strings and typed arrays are objects in JavaScript too, but not here. */
export function isMap(v: unknown): v is Record<string, unknown> {
  return typeof v === 'object' && v !== null && !Array.isArray(v) && !(v instanceof PackedArray) && !ArrayBuffer.isView(v);
}

/** An object with known fields; unknown ones are kept. Schemas only check: they never transform, so a checked value is the value itself. */
export function object<S extends z.core.$ZodLooseShape>(shape: S) {
  return z.custom<z.input<z.ZodObject<S, z.core.$loose>>>(isMap, { message: 'must be an object' }).pipe(z.looseObject(shape));
}

/** Fields a producer or importer could not map. */
export const extra = record.optional().meta({ description: 'what the producer or importer could not map' });

/** A token stream: a typed array of one element type. */
export function stream<D extends Dtype>(dtype: D): z.ZodType<PackedArray<D>> {
  return z
    .custom<PackedArray<D>>((v) => v instanceof PackedArray && v.dtype === dtype, {
      message: `must be a typed array of ${dtype} (CBOR typed array, JSON numbers or base64)`,
    })
    .meta({ type: 'string', contentEncoding: 'base64', 'x-dtype': dtype });
}

/** Where a value too large for an event lies: in the blob store, named by its content. */
export const blobHandle = object({
  sha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .meta({ description: 'lower-case hexadecimal' }),
  bytes: count.meta({ description: 'length of the content' }),
  mediaType: z.string().max(255),
  dtype: z.string().max(16).optional(),
  shape: z.array(count).max(16).optional(),
});
export type BlobHandle = z.infer<typeof blobHandle>;

/** A stretch of time; an end may be missing. Microseconds. */
export const span = object({ start: micros.nullish(), end: micros.nullish() });

export const errorInfo = object({
  type: name,
  message: text,
  statusCode: z.int().nullish().meta({ description: 'HTTP status, when there was one' }),
  traceback: text.nullish(),
});
