/** Parts that answers share, as Zod schemas: the OpenAPI document and the types of clients come from them. */
import { z } from 'zod';
import type { JsonFloat } from '../../traces/trace-answer.ts';

/** A double; those that JSON lacks are objects. */
export const jsonFloat = z.union([z.number(), z.object({ $float: z.enum(['NaN', 'Infinity', '-Infinity']) })]);
/** A 64-bit integer. */
export const long = z.string().regex(/^-?\d+$/);
export const whole = z.int();
export const count = z.object({ value: long, exact: z.boolean().meta({ description: 'False: at least so many.' }) });
export const position = z.string().meta({ description: 'The log position the answer is true of.' });

/** A computed answer as it is sent: any of its numbers may be one that JSON lacks. */
export type AsJson<T> = T extends number ? JsonFloat : T extends object ? { readonly [Key in keyof T]: AsJson<T[Key]> } : T;

/** The response of a route, for its schema: nothing else is answered with that status. */
export function jsonAnswer(description: string, schema: z.ZodType, status = 200): object {
  return { [status]: { description, ...jsonSchema(schema) } };
}

/** One response in several forms, by media type; null is bytes. */
export function answerForms(
  description: string,
  forms: Readonly<Record<string, z.ZodType | null>>,
  headers: Readonly<Record<string, z.ZodType>> = {},
): object {
  const content = Object.entries(forms).map(([type, schema]) => [type, { schema: schema === null ? BYTES : jsonSchema(schema) }]);
  const named = Object.entries(headers).map(([name, schema]) => [name, jsonSchema(schema)]);
  return { 200: { description, headers: Object.fromEntries(named) as object, content: Object.fromEntries(content) as object } };
}

const BYTES = { type: 'string', format: 'binary' };

function jsonSchema(schema: z.ZodType): object {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io: 'output' });
  return rest;
}
