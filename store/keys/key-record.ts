/** One API key as it is kept, and the file of all of them. A closed schema: a field this version does not know is an error, not something to overlook. */
import { z } from 'zod';
import { entityId } from '../../events/fields.ts';

/** Each role may do what those before it may. */
export const KEY_ROLES = ['read', 'write', 'admin'] as const;
export type KeyRole = (typeof KEY_ROLES)[number];

/** The project of a key that may work on every project, and on the server as a whole. */
export const ALL_PROJECTS = '*';

const bound = z.int().positive();

/** Limits of one key. What is missing is bounded by the settings of the server only; the smaller of both holds. */
export const keyLimitsSchema = z.strictObject({
  /** Requests a second, on average; twice as many may come at once. */
  rate: z.number().positive().optional(),
  /** Bytes of one request body as sent. */
  bodyBytes: bound.optional(),
  sqlConcurrent: bound.optional(),
  sqlTimeoutMs: bound.optional(),
  sqlReadRows: bound.optional(),
  sqlReadBytes: bound.optional(),
  sqlResultRows: bound.optional(),
  sqlResultBytes: bound.optional(),
  sqlMemoryBytes: bound.optional(),
});
export type KeyLimits = z.infer<typeof keyLimitsSchema>;

const seconds = z.int().nonnegative();

const keyRecordSchema = z.strictObject({
  id: z.string().regex(/^[a-z2-7]{10}$/),
  /** For people: what the key is for. */
  name: z.string().max(200),
  project: entityId,
  role: z.enum(KEY_ROLES),
  hash: z.string().regex(/^[0-9a-f]{64}$/),
  /** Seconds since 1970; null: never. */
  created: seconds,
  expires: seconds.nullable(),
  revoked: seconds.nullable(),
  limits: keyLimitsSchema,
});
export type KeyRecord = z.infer<typeof keyRecordSchema>;

export const keysFileSchema = z.strictObject({ version: z.literal(1), keys: z.array(keyRecordSchema).max(100_000) });

export function roleIncludes(has: KeyRole, needed: KeyRole): boolean {
  return KEY_ROLES.indexOf(has) >= KEY_ROLES.indexOf(needed);
}

/** May a key of project `has` work on `project`? */
export function projectIncludes(has: string, project: string): boolean {
  return has === ALL_PROJECTS || has === project;
}
