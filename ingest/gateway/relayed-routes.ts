/** What passes through the gateway without a record: the list of models, and counting tokens for Messages. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { isTapedeckError, TapedeckError } from '../../base/errors.ts';
import { readBody, type BodyPorts } from '../http/read-body.ts';
import { toTapedeckError } from '../http/error-answer.ts';
import { upstreamHeaders } from './calls/harness-headers.ts';
import type { Dialect, DialectName } from './dialects/dialect.ts';
import { keyOfRequest, readKey } from './keys.ts';
import { timeoutsOf } from './upstreams/http.ts';
import type { Upstream, UpstreamPool } from './upstreams/pool.ts';
import type { Clock } from '../../base/clock.ts';
import { ERROR_CODES } from '../../base/errors.ts';

export type RelayedRoutesPorts = {
  readonly pool: UpstreamPool;
  readonly secret: Uint8Array;
  readonly clock: Clock;
  readonly dialectOf: (name: DialectName) => Dialect;
  readonly body: BodyPorts;
  readonly prefixes: readonly string[];
};

type Params = { readonly key?: string; readonly upstream?: string };
type Answer = { readonly status: number; readonly contentType: string; readonly body: Buffer };
type Model = Readonly<Record<string, unknown>> & { readonly id: string };

/** Answers of these routes are small. */
const MAX_ANSWER_BYTES = 8 * 1024 * 1024;

export function registerRelayedRoutes(app: FastifyInstance, ports: RelayedRoutesPorts): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', async (request: FastifyRequest, payload: FastifyRequest['raw']) =>
    readBody(request.headers, payload, ports.body).catch((error: unknown) => toTapedeckError(error)),
  );
  app.setValidatorCompiler(() => () => true);
  app.setSerializerCompiler(() => (value) => (typeof value === 'string' ? value : JSON.stringify(value)));
  for (const prefix of ports.prefixes) {
    const hide = prefix !== '';
    app.get(`${prefix}/v1/models`, { schema: { summary: 'Models that the upstreams serve', tags: ['gateway'], hide } }, (request, reply) =>
      guarded(request, reply, 'openai.chat', ports, async () => {
        const data = await listModels(named(request, ports), request);
        return reply.send({ object: 'list', data });
      }),
    );
    app.post(
      `${prefix}/v1/messages/count_tokens`,
      { schema: { summary: 'Count the tokens of Messages', tags: ['gateway'], hide } },
      (request, reply) => guarded(request, reply, 'anthropic.messages', ports, () => countTokens(request, reply, ports)),
    );
  }
}

/** Checks the key; every refusal has the shape of the dialect. */
async function guarded(
  request: FastifyRequest,
  reply: FastifyReply,
  dialect: DialectName,
  { secret, clock, dialectOf }: RelayedRoutesPorts,
  work: () => Promise<FastifyReply>,
): Promise<FastifyReply> {
  try {
    const key = keyOfRequest(request.headers, (request.params as Params).key);
    const claims = key.ok ? readKey(secret, key.value, clock.nowMicros()) : key;
    if (!claims.ok) throw new TapedeckError(claims.error.code, claims.error.message);
    return await work();
  } catch (error) {
    const { code, message } = toTapedeckError(error);
    const { status, retry } = ERROR_CODES[code];
    void reply.code(status).header(retry ? 'retry-after' : 'x-should-retry', retry ? '1' : 'false');
    return reply.send(dialectOf(dialect).errorBody(status, code, message));
  }
}

function named(request: FastifyRequest, { pool }: RelayedRoutesPorts): readonly Upstream[] {
  const { upstream } = request.params as Params;
  return upstream === undefined ? pool.all : pool.all.filter(({ settings }) => settings.name === upstream);
}

/** What each upstream says of its models, under the names that a harness may ask for; those that cannot be asked are told by their configured names. */
async function listModels(upstreams: readonly Upstream[], request: FastifyRequest): Promise<Model[]> {
  const found = new Map<string, Model>();
  const lists = await Promise.all(upstreams.map(async (upstream) => modelsOf(upstream, request)));
  for (const model of lists.flat()) if (!found.has(model.id)) found.set(model.id, model);
  return [...found.values()];
}

async function modelsOf(upstream: Upstream, request: FastifyRequest): Promise<Model[]> {
  const { settings } = upstream;
  const said = await ask(upstream, 'GET', '/models', request, null).then(parseModels, () => []);
  if (settings.models === undefined) return said;
  const names = Array.isArray(settings.models) ? settings.models : Object.keys(settings.models);
  return names.map((id) => ({
    ...(said.find((model) => model.id === upstream.modelName(id)) ?? { object: 'model', owned_by: settings.name }),
    id,
  }));
}

function parseModels({ status, body }: Answer): Model[] {
  if (status !== 200) return [];
  const { data } = JSON.parse(body.toString('utf8')) as { data?: unknown };
  return Array.isArray(data) ? data.filter((each): each is Model => typeof (each as Model | null)?.id === 'string') : [];
}

/** Only servers that speak Messages themselves can count as they bill. */
async function countTokens(request: FastifyRequest, reply: FastifyReply, ports: RelayedRoutesPorts): Promise<FastifyReply> {
  const received = request.body as Awaited<ReturnType<typeof readBody>> | TapedeckError | undefined;
  if (received === undefined) throw new TapedeckError('bad_request', 'the body is empty; send a JSON object');
  if (isTapedeckError(received)) throw received;
  try {
    const body = Buffer.from(received.bytes);
    const { model } = readModel(body);
    const serving = named(request, ports).filter(
      (upstream) => upstream.settings.kind === 'anthropic' && upstream.modelName(model) !== null,
    );
    const [upstream] = serving;
    if (upstream === undefined)
      throw new TapedeckError(
        'model_unknown',
        `no upstream of kind anthropic serves the model ${JSON.stringify(model)}: tokens of other engines cannot be counted here`,
      );
    const answer = await ask(
      upstream,
      'POST',
      '/messages/count_tokens',
      request,
      withModel(body, model, upstream.modelName(model) as string),
    );
    return await reply.code(answer.status).type(answer.contentType).send(answer.body.toString('utf8'));
  } finally {
    received.release(true);
  }
}

function readModel(body: Buffer): { readonly model: string } {
  let value: unknown;
  try {
    value = JSON.parse(body.toString('utf8'));
  } catch {
    throw new TapedeckError('invalid_json', 'the body is not JSON');
  }
  const model = (value as { model?: unknown } | null)?.model;
  if (typeof model !== 'string') throw new TapedeckError('missing_field', 'model: must be a text');
  return { model };
}

/** The body as it came where the upstream has the same name for the model. */
function withModel(body: Buffer, asked: string, served: string): Buffer {
  if (asked === served) return body;
  return Buffer.from(JSON.stringify({ ...(JSON.parse(body.toString('utf8')) as object), model: served }));
}

function ask(upstream: Upstream, method: 'GET' | 'POST', path: string, request: FastifyRequest, body: Buffer | null): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const { settings } = upstream;
  const parts: Buffer[] = [];
  let size = 0;
  let head = { status: 0, contentType: 'application/json' };
  const exchange = upstream.http.send(
    { method, url: settings.apiUrl + path, headers: upstreamHeaders(request.headers, settings, ''), body, ...timeoutsOf(settings) },
    {
      onHead: (status, headers) => (head = { status, contentType: String(headers['content-type'] ?? 'application/json') }),
      onChunk: (chunk) => {
        size += chunk.length;
        if (size > MAX_ANSWER_BYTES)
          exchange.abort(new TapedeckError('upstream_malformed', `the upstream's answer exceeds ${MAX_ANSWER_BYTES} bytes`));
        else parts.push(chunk);
        return true;
      },
      onEnd: () => resolve({ ...head, body: Buffer.concat(parts) }),
      onError: reject,
    },
  );
  return promise;
}
