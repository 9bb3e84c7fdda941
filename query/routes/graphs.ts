/** Graphs and tokens of one trace for screens: the skeleton by index range, windows around a node, tokens of a branch by range and column. */
import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyPluginAsync, FastifyReply } from 'fastify';
import { z } from 'zod';
import { TapedeckError } from '../../base/errors.ts';
import { DEFAULT_PROJECT } from '../../events/envelope.ts';
import { entityId } from '../../events/fields.ts';
import type { ColumnStore } from '../../store/columns/column-store.ts';
import { readGraphWindow, type GraphRequest } from '../graph/read-window.ts';
import { readSkeletonArrow } from '../graph/skeleton.ts';
import { positionText } from '../positions/log-position.ts';
import { abortedWith } from '../operations/client-gone.ts';
import { parsed } from '../operations/parsed.ts';
import { tokensArrow } from '../tokens/arrow-tokens.ts';
import { readTokens, type TokensAnswer } from '../tokens/read-tokens.ts';
import { isPresent, TOKEN_COLUMNS, type TokenColumn, type TokenColumnName } from '../tokens/token-columns.ts';
import { floatText } from '../traces/json-float.ts';
import { answer } from './answer.ts';
import { answerForms, jsonAnswer, position } from './answers/answer-schema.ts';
import { graphAnswer, tokensAnswer } from './answers/trace-answers.ts';
import { AS_OF_HEADER, factsAsOf, placed } from './as-of-parameter.ts';
import { replyError } from './error-reply.ts';

const index = z.coerce.number().int().min(0).max(0xffff_fffe);
const inTrace = {
  project: entityId.default(DEFAULT_PROJECT),
  run: entityId.optional().meta({ description: 'Needed only when several runs use the same trace id.' }),
  asOf: factsAsOf,
};
const params = z.object({ trace: entityId });

export const skeletonQuery = z.strictObject({
  ...inTrace,
  from: index.default(0),
  to: z.coerce.number().int().min(0).max(0xffff_ffff).default(0xffff_ffff).meta({ description: 'One behind the last index.' }),
});
export const graphQuery = z.strictObject({
  ...inTrace,
  around: index.optional().meta({ description: 'A node: its ancestors, what lies below it and its later siblings.' }),
  children: index.optional().meta({ description: 'A node: its children; go on with `after`.' }),
  path: index.optional().meta({ description: 'A node: the path from it to the root, the nearest nodes first; go on with the node that `next` names.' }),
  after: z.coerce.number().int().min(-1).max(0xffff_fffe).default(-1),
  limit: z.coerce.number().int().min(1).max(2_000).default(200),
  chars: z.coerce.number().int().min(1).max(1_000_000).default(200).meta({ description: 'Characters of each text.' }),
}); // prettier-ignore
const DEFAULT_COLUMNS = 'node,token_id,mask,logprob';
export const tokensQuery = z.strictObject({
  ...inTrace,
  leaf: index.meta({ description: 'Leaf of the branch; any node gives the path to it.' }),
  from: z.coerce.number().int().min(0).default(0).meta({ description: 'First token, counted in the branch.' }),
  to: z.coerce.number().int().min(0).optional().meta({ description: 'One behind the last token.' }),
  columns: z
    .string()
    .max(1_000)
    .default(DEFAULT_COLUMNS)
    .meta({ description: `Separated by commas: ${TOKEN_COLUMNS.join(', ')}.` }),
  teacher: z.string().max(1_024).optional(),
  feed: entityId.optional(),
  step: z.coerce.number().int().min(0).optional(),
  format: z.enum(['arrow', 'json']).default('json'),
});

const ARROW = 'application/vnd.apache.arrow.stream';
const AS_OF_HEADERS = { [AS_OF_HEADER]: position };
const RAW = { validatorCompiler: () => () => true, serializerCompiler: () => JSON.stringify } as const;

function schemaOf(operationId: string, summary: string, query: z.ZodType, response: object): object {
  const json = (schema: z.ZodType): object => z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  return { operationId, summary, tags: ['query'], params: json(params), querystring: json(query), response };
}

export const graphRoutes: FastifyPluginAsync<{ readonly store: ColumnStore }> = async (app, { store }) => {
  routeSkeleton(app, store);
  app.get('/v1/traces/:trace/graph', { schema: schemaOf('trace_graph', 'A window of a graph', graphQuery, jsonAnswer('Nodes, ascending by index', graphAnswer)), ...RAW }, (request, reply) =>
    answer(reply, async (signal) => {
      const { trace } = parsed(params, request.params);
      const { around, children, path, after, ...asked } = parsed(graphQuery, request.query);
      const want = wantOf({ around, children, path, after });
      return readGraphWindow(store, { ...(await placed(store, asked, signal)), trace, want });
    }),
  );
  app.get('/v1/traces/:trace/tokens', { schema: schemaOf('trace_tokens', 'Tokens of a branch', tokensQuery, answerForms('Columns of the stretch', { 'application/json': tokensAnswer, [ARROW]: null }, AS_OF_HEADERS)), ...RAW }, async (request, reply) => {
    try {
      const { trace } = parsed(params, request.params);
      const { columns, format, ...asked } = parsed(tokensQuery, request.query);
      const named = columnsOf(columns);
      const found = await readTokens(store, { ...(await placed(store, asked, abortedWith(reply))), columns: named, trace });
      return format === 'json' ? await reply.send(tokensJson(asked.project, found)) : await sendTokens(reply, asked.project, found);
    } catch (error) {
      return replyError(reply, error);
    }
  });
}; // prettier-ignore

function routeSkeleton(app: FastifyInstance, store: ColumnStore): void {
  const schema = schemaOf(
    'trace_skeleton',
    'The skeleton of a graph as Arrow',
    skeletonQuery,
    answerForms('A stream of record batches', { [ARROW]: null }, AS_OF_HEADERS),
  );
  app.get('/v1/traces/:trace/skeleton', { schema, ...RAW }, async (request, reply) => {
    try {
      const { trace } = parsed(params, request.params);
      const asked = await placed(store, parsed(skeletonQuery, request.query), abortedWith(reply));
      const body = await readSkeletonArrow(store, { ...asked, trace });
      return await reply
        .type(ARROW)
        .headers({ 'cache-control': 'no-store', [AS_OF_HEADER]: positionText(asked.position) })
        .send(Readable.from(body, { objectMode: false }));
    } catch (error) {
      return replyError(reply, error);
    }
  });
}

type Wanted = {
  readonly around: number | undefined;
  readonly children: number | undefined;
  readonly path: number | undefined;
  readonly after: number;
};

function wantOf({ around, children, path, after }: Wanted): GraphRequest['want'] {
  const given = [around, children, path].filter((one) => one !== undefined);
  if (given.length !== 1) throw new TapedeckError('bad_request', 'name one of around, children and path');
  if (around !== undefined) return { kind: 'around', node: around };
  return children !== undefined ? { kind: 'children', node: children, after } : { kind: 'path', node: path as number };
}

function columnsOf(text: string): TokenColumnName[] {
  return [...new Set(text.split(','))].map((name) => {
    const known = TOKEN_COLUMNS.find((column) => column === name);
    if (known === undefined) throw new TapedeckError('column_unknown', `there is no column ${name.slice(0, 100)}; there are ${TOKEN_COLUMNS.join(', ')}`);
    return known;
  });
} // prettier-ignore

function sendTokens(reply: FastifyReply, project: string, found: TokensAnswer): FastifyReply {
  const { stretch, place, trace, asOf, leaf, tokens, segments, annotation } = found;
  const metadata = { project, ...place, trace, asOf, leaf: String(leaf), tokens: String(tokens), from: String(stretch.from), to: String(stretch.to), annotation: JSON.stringify(annotation), segments: segments.length > 1_000 ? '' : JSON.stringify(segments) };
  return reply.type(ARROW).headers({ 'cache-control': 'no-store', [AS_OF_HEADER]: asOf }).send(Buffer.from(tokensArrow(stretch.columns, stretch.to - stretch.from, metadata)));
} // prettier-ignore

function tokensJson(project: string, { stretch, place, trace, asOf, leaf, tokens, segments, annotation }: TokensAnswer): object {
  const length = stretch.to - stretch.from;
  const columns = Object.fromEntries([...stretch.columns].map(([name, column]) => [name, cellsOf(column, length)]));
  return { project, ...place, trace, asOf, leaf, tokens, from: stretch.from, to: stretch.to, segments, annotation, columns };
}

function cellsOf(column: TokenColumn, length: number): unknown[] {
  return Array.from({ length }, (_, at) => {
    if (!isPresent(column, at)) return null;
    const value = column.values[at] as number | bigint;
    return typeof value === 'bigint' ? value.toString() : column.kind === 'f32' ? floatText(value) : value;
  });
}
