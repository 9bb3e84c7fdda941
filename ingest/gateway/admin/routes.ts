/** `POST /v1/rollouts`, `/v1/rollouts/{id}/traces`, `/v1/rollouts/{id}/end`, `/v1/runs/{id}/keys`. Open on loopback, like the rest of the server. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { Clock } from '../../../base/clock.ts';
import { TapedeckError } from '../../../base/errors.ts';
import { entityId } from '../../../events/fields.ts';
import { keyOfRequest, readKey, type KeyClaims } from '../keys.ts';
import { ADMIN_SCHEMAS } from './openapi.ts';
import { endRolloutSchema, newRolloutSchema, newTraceSchema, runKeySchema } from './requests.ts';
import type { MadeKey, RolloutsAdmin } from './rollouts-admin.ts';

type Options = { readonly admin: RolloutsAdmin; readonly secret: Uint8Array; readonly clock: Clock };

const ADMIN_BODY_BYTES = 16 * 1024 * 1024;

export function registerAdminRoutes(app: FastifyInstance, { admin, secret, clock }: Options): void {
  app.setValidatorCompiler(() => () => true);
  app.setSerializerCompiler(() => (value) => JSON.stringify(value));
  const options = { bodyLimit: ADMIN_BODY_BYTES };
  const claimsOf = (request: FastifyRequest): KeyClaims | null => {
    const key = keyOfRequest(request.headers, undefined);
    if (!key.ok) return null;
    const claims = readKey(secret, key.value, clock.nowMicros());
    if (!claims.ok) throw new TapedeckError(claims.error.code, claims.error.message);
    return claims.value;
  };

  app.post('/v1/rollouts', { ...options, schema: ADMIN_SCHEMAS.rollouts }, async (request, reply) => {
    const made = await admin.start(parsed(newRolloutSchema, request.body));
    return reply.code(201).send({ ...made, expires: iso(made.expires), baseUrls: baseUrls(request, made) });
  });

  app.post('/v1/rollouts/:rollout/traces', { ...options, schema: ADMIN_SCHEMAS.traces }, async (request, reply) => {
    const made = await admin.addTrace(idIn(request, 'rollout'), parsed(newTraceSchema, request.body), claimsOf(request));
    return reply.code(201).send({ ...made, expires: iso(made.expires), baseUrls: baseUrls(request, made) });
  });

  app.post('/v1/rollouts/:rollout/end', { ...options, schema: ADMIN_SCHEMAS.end }, async (request) =>
    admin.end(idIn(request, 'rollout'), parsed(endRolloutSchema, request.body), claimsOf(request)),
  );

  app.post('/v1/runs/:run/keys', { ...options, schema: ADMIN_SCHEMAS.keys }, async (request, reply) => {
    const run = idIn(request, 'run');
    const made = await admin.runKey(run, parsed(runKeySchema, request.body));
    return reply.code(201).send({ run, ...made, expires: iso(made.expires), baseUrls: baseUrls(request, made) });
  });
}

function parsed<S extends z.ZodType>(schema: S, value: unknown): z.output<S> {
  const result = schema.safeParse(value ?? {});
  if (result.success) return result.data;
  throw new TapedeckError(
    'bad_request',
    result.error.issues.map((issue) => `${issue.path.join('.') || 'body'}: ${issue.message}`).join('; '),
  );
}

function idIn(request: FastifyRequest, name: 'rollout' | 'run'): string {
  return parsed(z.object({ [name]: entityId }), request.params)[name] as string;
}

function iso(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}

/** What a program takes as its base URL; `withKey` for programs that take nothing else. */
function baseUrls(request: FastifyRequest, { key }: MadeKey): Record<string, unknown> {
  const root = `${request.protocol}://${request.host}`;
  return {
    openai: `${root}/v1`,
    anthropic: root,
    root,
    withKey: { openai: `${root}/k/${key}/v1`, anthropic: `${root}/k/${key}`, root: `${root}/k/${key}` },
  };
}
