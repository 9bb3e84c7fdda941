import type { z } from 'zod';
import { TapedeckError } from '../../base/errors.ts';

/** A part of a request as its schema says, or `bad_request` naming every wrong field. */
export function parsed<S extends z.ZodType>(schema: S, value: unknown): z.output<S> {
  const result = schema.safeParse(value ?? {});
  if (result.success) return result.data;
  throw new TapedeckError('bad_request', result.error.issues.map((i) => `${i.path.join('.') || 'body'}: ${i.message}`).join('; '));
}
