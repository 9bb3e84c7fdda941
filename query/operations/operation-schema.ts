/** How a route of operations stands in the OpenAPI document. Requests are checked in the handler, answers are sent as they are. */
import { z } from 'zod';
import { answerForms } from '../routes/answers/answer-schema.ts';

type Parts = {
  readonly summary: string;
  readonly params?: z.ZodType;
  readonly querystring?: z.ZodType;
  readonly body?: z.ZodType;
  /** By media type; null is bytes. */
  readonly forms: Readonly<Record<string, z.ZodType | null>>;
};

const json = (schema: z.ZodType): object => z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });

export const JSON_LINES = 'application/x-ndjson';

/** The options of a route; of lines, the schema is that of each line. */
export function operation({ summary, params, querystring, body, forms }: Parts) {
  return {
    schema: {
      summary,
      tags: ['operations'],
      ...(params === undefined ? {} : { params: json(params) }),
      ...(querystring === undefined ? {} : { querystring: json(querystring) }),
      ...(body === undefined ? {} : { body: json(body) }),
      response: answerForms(JSON_LINES in forms ? `${summary}: progress, a line each` : summary, forms),
    },
    validatorCompiler: () => () => true,
    serializerCompiler: () => (value: unknown) => JSON.stringify(value),
  };
}
