/** Environments and evaluations: environments are only names here, an evaluation is a run. */
import { createHash } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { TapedeckError } from '../../base/errors.ts';
import { splitJsonItems } from '../../events/codec/json-items.ts';
import { openClaim } from '../http/claim.ts';
import { makeEvent } from '../importers/event-maker.ts';
import { isRecord, nameOf, type JsonRecord } from '../importers/json-value.ts';
import { jsonReader } from '../importers/read-json.ts';
import { jsonText } from '../importers/verifiers-v0-row.ts';
import { openDraft, type Draft } from './draft.ts';
import { evaluationAnswer, type EvaluationState } from './evaluation.ts';
import { objectOf, withJsonBody } from './json-body.ts';
import { memberOf } from './json-member.ts';
import { evaluationRun, sampleEvents, type SampleContext } from './sample.ts';
import type { UploadPorts } from './uploads-route.ts';

type WithId = { readonly Params: { readonly id: string } };

export function registerEvaluations(app: FastifyInstance, ports: UploadPorts): void {
  const { evaluations, uploads } = ports;
  const answer = (reply: FastifyReply, request: FastifyRequest, id: string, state: EvaluationState): FastifyReply =>
    reply.type('application/json; charset=utf-8').send(jsonText(evaluationAnswer(id, state, viewerOf(request, id))));

  registerEnvironments(app, ports);
  for (const path of ['/api/v1/evaluations/', '/api/v1/evaluations']) {
    app.post(path, { schema: { summary: 'Create an evaluation', tags: ['uploads'], hide: path.endsWith('s') } }, async (request, reply) => {
      const { id, state } = await withJsonBody(request, ports, uploads.jsonBytes, async (text) => {
        const body = objectOf(text);
        if (nameOf(body['name']) === null)
          throw new TapedeckError('missing_field', 'name must have 1 to 1024 characters', { details: { field: 'name' } });
        return evaluations.create(body);
      });
      return answer(reply, request, id, state);
    });
  }
  app.get<WithId>('/api/v1/evaluations/:id', { schema: { summary: 'Read an evaluation', tags: ['uploads'] } }, async (request, reply) => {
    const { id } = request.params;
    return answer(reply, request, id, await evaluations.read(id));
  });
  app.put<WithId>('/api/v1/evaluations/:id', { schema: { summary: 'Change an evaluation', tags: ['uploads'] } }, async (request, reply) => {
    const { id } = request.params;
    const state = await withJsonBody(request, ports, uploads.jsonBytes, async (text) => evaluations.update(id, objectOf(text)));
    return answer(reply, request, id, state);
  });
  app.post<WithId>(
    '/api/v1/evaluations/:id/finalize',
    { schema: { summary: 'Complete an evaluation', tags: ['uploads'] } },
    async (request, reply) => {
      const { id } = request.params;
      const state = await withJsonBody(request, ports, uploads.jsonBytes, async (text) =>
        evaluations.finalize(id, metricsOf(objectOf(text))),
      );
      return answer(reply, request, id, state);
    },
  );
  app.post<WithId>(
    '/api/v1/evaluations/:id/samples',
    { schema: { summary: 'Add samples to an evaluation', tags: ['uploads'] } },
    async (request) => {
      const { id } = request.params;
      const state = await evaluations.read(id);
      const received = await withJsonBody(request, ports, ports.limits.bodyBytes, async (text) => takeSamples(id, state, text, ports));
      return { evaluation_id: id, samples_received: received };
    },
  );
}

/** Environments need no registration: the id of one is its name, as the traces say it. */
function registerEnvironments(app: FastifyInstance, ports: UploadPorts): void {
  const byField = (field: 'name' | 'id') => async (request: FastifyRequest) =>
    withJsonBody(request, ports, ports.uploads.jsonBytes, async (text) => {
      const name = nameOf(objectOf(text)[field]);
      if (name === null) throw new TapedeckError('missing_field', `${field} must have 1 to 1024 characters`, { details: { field } });
      return { data: { id: name, name } };
    });
  app.post('/api/v1/environmentshub/resolve', { schema: { summary: 'The id of an environment', tags: ['uploads'] } }, byField('name'));
  app.post('/api/v1/environmentshub/lookup', { schema: { hide: true } }, byField('id'));
  app.get<{ Params: { owner: string; name: string } }>(
    '/api/v1/environmentshub/:owner/:name/@latest',
    { schema: { hide: true } },
    (request) => {
      const name = `${request.params.owner}/${request.params.name}`;
      return { data: { id: name, name } };
    },
  );
}

function metricsOf(body: JsonRecord): JsonRecord | null {
  const { metrics } = body;
  if (metrics === undefined || metrics === null) return null;
  if (!isRecord(metrics)) throw new TapedeckError('wrong_type', 'metrics must be an object', { details: { field: 'metrics' } });
  return Object.keys(metrics).length === 0 ? null : metrics;
}

/** All samples of a body or none; returns how many. */
async function takeSamples(id: string, state: EvaluationState, text: Buffer, ports: UploadPorts): Promise<number> {
  const list = samplesIn(text);
  const claim = openClaim(ports.budget);
  try {
    const draft = openDraft({
      accept: ports.accept,
      claim,
      maxEventBytes: ports.uploads.eventBytes,
      unit: 'sample',
      onAccepted: (accepted, bytes) => ports.metrics.onAccepted(accepted, bytes),
    });
    const start = makeEvent({ run: id }, 'run.started', '', state.created, {});
    const context = { run: id, evaluation: evaluationRun(id, state, start), digest: createHash('sha256').update(text).digest() };
    const read = jsonReader();
    for (const [index, item] of list.entries()) {
      await takeSample(item, index, read, context, draft);
      await ports.clock.sleep(0);
    }
    await draft.commit();
    return list.length;
  } finally {
    claim.release();
  }
}

async function takeSample(
  text: Buffer,
  index: number,
  read: ReturnType<typeof jsonReader>,
  context: SampleContext,
  draft: Draft,
): Promise<void> {
  const value = read(text);
  const mapped = value.ok ? sampleEvents(value.value, index, text, context) : value;
  if (!mapped.ok) {
    const { code, message, field } = mapped.error;
    const details = { sample: index + 1, code, ...(field !== undefined && { field }) };
    throw new TapedeckError('invalid_trace', `sample ${index + 1}: ${message}; nothing was stored`, { details });
  }
  await draft.add([...mapped.value.events, mapped.value.note], index + 1);
}

/** The items of the list `samples`, each with its text. */
function samplesIn(text: Buffer): Buffer[] {
  const member = memberOf(text, 'samples');
  if (!member.ok) throw new TapedeckError(member.error.code, member.error.message);
  const list = member.value === null ? null : text.subarray(member.value.start, member.value.end);
  if (list === null || list[0] !== 0x5b)
    throw new TapedeckError('missing_field', 'samples must be a list', { details: { field: 'samples' } });
  const items = splitJsonItems(list);
  if (!items.ok) throw new TapedeckError(items.error.code, items.error.message);
  return items.value.map(({ start, end }) => list.subarray(start, end));
}

/** Where a person can look at it: this server's own answer. */
function viewerOf(request: FastifyRequest, id: string): string {
  return `${request.protocol}://${request.host}/api/v1/evaluations/${encodeURIComponent(id)}`;
}
