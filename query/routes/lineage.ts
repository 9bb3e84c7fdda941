/** `GET /v1/lineage/…`: from a step to tokens, and from a node back to steps. */
import type { FastifyPluginAsync } from 'fastify';
import { z } from 'zod';
import { DEFAULT_PROJECT } from '../../events/envelope.ts';
import { entityId } from '../../events/fields.ts';
import type { ColumnStore } from '../../store/columns/column-store.ts';
import { readNode, readRow, readStep } from '../lineage/read-lineage.ts';
import { parsed } from '../operations/parsed.ts';
import { answer } from './answer.ts';
import { factsAsOf, placed } from './as-of-parameter.ts';
import { jsonAnswer } from './answers/answer-schema.ts';
import { nodeLineage, rowLineage, stepLineage } from './answers/query-answers.ts';

const project = entityId.default(DEFAULT_PROJECT);
const whole = z.coerce.number().int().min(0).max(Number.MAX_SAFE_INTEGER);
export const stepQuery = z.strictObject({ project, run: entityId.optional(), feed: entityId.optional(), asOf: factsAsOf });
export const rowQuery = z.strictObject({
  project,
  feed: entityId.optional(),
  timeline: whole.optional(),
  n: whole.optional(),
  asOf: factsAsOf,
});
export const nodeQuery = z.strictObject({ project, run: entityId.optional(), asOf: factsAsOf });
const stepParams = z.object({ step: whole });
const rowParams = z.object({ row: z.string().min(1).max(1_024) });
const nodeParams = z.object({ trace: entityId, index: z.coerce.number().int().min(0).max(0xffff_fffe) });

const RAW = { validatorCompiler: () => () => true, serializerCompiler: () => JSON.stringify } as const;
const json = (schema: z.ZodType): object => z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });

function schemaOf(operationId: string, summary: string, params: z.ZodType, query: z.ZodType, found: z.ZodType): object {
  return { operationId, summary, tags: ['query'], params: json(params), querystring: json(query), response: jsonAnswer(summary, found) };
}

export const lineageRoutes: FastifyPluginAsync<{ readonly store: ColumnStore }> = async (app, { store }) => {
  app.get(
    '/v1/lineage/steps/:step',
    { schema: schemaOf('lineage_step', 'The batches a step trained on', stepParams, stepQuery, stepLineage), ...RAW },
    (request, reply) =>
      answer(reply, async (signal) => {
        const { step } = parsed(stepParams, request.params);
        return readStep(store, { ...(await placed(store, parsed(stepQuery, request.query), signal)), step });
      }),
  );
  app.get(
    '/v1/lineage/rows/:row',
    { schema: schemaOf('lineage_row', 'The tokens of the nodes a row is made of', rowParams, rowQuery, rowLineage), ...RAW },
    (request, reply) =>
      answer(reply, async (signal) => {
        const { row } = parsed(rowParams, request.params);
        return readRow(store, { ...(await placed(store, parsed(rowQuery, request.query), signal)), rowId: row });
      }),
  );
  app.get(
    '/v1/traces/:trace/nodes/:index/lineage',
    { schema: schemaOf('lineage_node', 'The steps that trained a node', nodeParams, nodeQuery, nodeLineage), ...RAW },
    (request, reply) =>
      answer(reply, async (signal) => {
        const { trace, index } = parsed(nodeParams, request.params);
        return readNode(store, { ...(await placed(store, parsed(nodeQuery, request.query), signal)), trace, node: index });
      }),
  );
};
